#!/usr/bin/python3
"""TensorBoard event files hold what metrics.jsonl holds, also after kills, torn records and resumes, on one rank and on two.

Reads the files by the definition of the format, with nothing of TensorBoard's: frames, checksums, fields. $CHARL_BIN_DIR holds the
programs.
"""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from protobuf import fields  # pylint: disable=wrong-import-position

BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", ""))
CONFIG = """[run]
output_dir = run
[data]
path = digits.h5
[model]
type = mlp
hidden = 8
[train]
max_steps = 20
batch_size = 64
[eval]
interval = 5
[checkpoint]
interval = 4
keep_last = 9
[log]
interval = 1
formats = jsonl, tensorboard
peak_tflops = 0.5
[device]
share = yes
"""


def crc32c(data):
    """Bit by bit: slow and certain."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    """The checksum of a frame."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """The data of every frame, checksums checked; nothing may follow the last."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        length, crc = struct.unpack("<QI", data[at:at + 12])
        assert crc == masked(data[at:at + 8]), f"{path}: checksum of the length at {at}"
        body = data[at + 12:at + 12 + length]
        assert struct.unpack("<I", data[at + 12 + length:at + 16 + length])[0] == masked(body), f"{path}: checksum at {at}"
        yield body
        at += 16 + length


def read_run():
    """What the event files of run/tb hold: {(tag, step): value}, the steps of texts and those of session starts."""
    scalars, texts, hparams, starts = {}, [], [], []
    for path in sorted(pathlib.Path("run/tb").glob("events.out.tfevents.*")):
        for number, body in enumerate(records(path)):
            event = dict(fields(body))
            step = event.get(2, 0)
            assert event[1] > 1.6e9, "wall time"
            if number == 0:
                assert event[3] == b"brain.Event:2", f"{path} begins with {event}"
            if 7 in event:
                assert dict(fields(event[7])) == {1: 1}
                starts.append(step)
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                tag = value[1].decode()
                if 2 in value:
                    assert (tag, step) not in scalars, f"{tag} of step {step} is there twice"
                    scalars[tag, step] = value[2]
                else:
                    plugin = dict(fields(dict(fields(value[9]))[1]))
                    (texts if plugin[1] == b"text" else hparams).append((tag, step, value[8], plugin.get(2)))
    return scalars, texts, hparams, starts


def expected():
    """The same scalars by metrics.jsonl."""
    out = {}
    for line in pathlib.Path("run/metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for key, value in row.items():
            if key not in ("event", "step", "time", "best", "nonfinite"):
                out[f"{row['event']}/{key}", row["step"]] = math.nan if value is None else value
    return out


def check(what, steps):
    """run/tb holds every row of metrics.jsonl up to `steps`, once, and nothing else."""
    got, texts, hparams, starts = read_run()
    want = expected()
    assert set(got) == set(want), f"{what}: {set(got) ^ set(want)}"
    for key, value in want.items():
        # metrics.jsonl rounds all but losses and rates of learning
        exact = key[0].endswith(("/loss", "/lr", "/grad_norm", "/accuracy"))
        near = 0 if exact else 1e-3 * abs(value) + 1e-3
        assert abs(got[key] - struct.unpack("<f", struct.pack("<f", value))[0]) <= near, f"{what}: {key}: {got[key]}, not {value}"
    for (tag, step), value in got.items():
        if tag == "train/tflops":  # of 784 x 8 and 8 x 10, forward and backward, but for the gradient of the input
            assert abs(value * got["train/step_ms", step] * 1e9 / (2 * 64 * (2 * 784 * 8 + 3 * 8 * 10)) - 1) < 2e-3, f"{what}: {value} TFLOP/s"
            ranks = 2 if what != "afresh" and 8 < step <= 20 else 1
            assert abs(got["train/mfu", step] / value * 0.5 * ranks - 1) < 1e-3, f"{what}: mfu of step {step}"
    assert sum(t == "train/mfu" for t, _ in got) == steps, f"{what}: no mfu"
    assert sorted(s for t, s in got if t == "train/loss") == list(range(1, steps + 1)), what
    assert len({(t, s) for t, s, _, _ in texts}) == len(texts), f"{what}: a text twice"
    assert len(hparams) == 1, f"{what}: {len(hparams)} sets of hyperparameters"
    assert b"optimizer.learning_rate" in hparams[0][3] and b"[model]" in texts[0][2], what
    assert b"output_dir" not in hparams[0][3], "hyperparameters hold a path"
    print(f"{what}: {len(got)} values of {steps} steps, starts at {starts}")
    return starts


def train(code, *arguments, fault=None, ranks=1):
    """charl-train, which must end with one of the codes."""
    env = dict(os.environ, **({"CHARL_FAULT": fault} if fault else {}))
    launcher = ["mpirun", "-q", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*launcher, BIN / "charl-train", "run.ini", "-q", *arguments], env=env, timeout=1500, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode in code, f"ended with {done.returncode}, not {code}:\n{done.stdout}"


def histograms():
    """The histograms of run/tb: {(tag, step): [(left, right, count), ...]}."""
    out = {}
    for path in sorted(pathlib.Path("run/tb").glob("events.out.tfevents.*.charl")):
        for body in records(path):
            event = dict(fields(body))
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                if 9 in value and dict(fields(dict(fields(value[9]))[1]))[1] == b"histograms":
                    tensor = dict(fields(value[8]))
                    sizes = [dict(fields(dim))[1] for _, dim in fields(tensor[2])]
                    numbers = struct.unpack(f"<{len(tensor[4]) // 8}d", tensor[4])
                    assert tensor[1] == 2 and sizes == [len(numbers) // 3, 3], f"{value[1]}: {sizes}"
                    key = value[1].decode(), event[2]
                    assert key not in out, f"{key} twice"
                    out[key] = [numbers[k:k + 3] for k in range(0, len(numbers), 3)]
    return out


def check_histograms():
    """Parameters and gradients as the checkpoints have them: without momentum a step changes a parameter by rate times gradient."""
    try:
        import h5py
        import numpy as np
    except ImportError as missing:
        print(f"skipped case: histograms: {missing}")
        return
    sgd = ["optimizer.type=sgd", "optimizer.momentum=0", "optimizer.learning_rate=0.5", "optimizer.weight_decay=0"]
    one = ["log.histogram_interval=2", "checkpoint.interval=1", "checkpoint.keep_last=20", "train.max_steps=6", "--overwrite"]
    train([0], *one, *sgd)
    alone = histograms()
    assert {s for _, s in alone} == {2, 4, 6} and len(alone) == 24, sorted(alone)
    tensors = {}
    for step in (3, 4):
        with h5py.File(f"run/checkpoints/step-{step:08}.h5") as f:
            tensors[step] = {name: np.array(f["model"][name]) for name in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")}
    for name, after in tensors[4].items():
        gradient = (tensors[3][name].astype(float) - after) / 0.5
        for kind, want, near in (("parameters", after, 1e-7), ("gradients", gradient, 2e-6)):
            bins = np.array(alone[f"{kind}/{name}", 4])
            assert bins[:, 2].sum() == want.size, f"{kind}/{name}: {bins[:, 2].sum()} of {want.size} values"
            assert abs(bins[0, 0] - want.min()) <= near and abs(bins[-1, 1] - want.max()) <= near, f"{kind}/{name}"
            assert np.allclose(bins[1:, 0], bins[:-1, 1]), f"{kind}/{name}: bins do not touch"
            middle = (bins[:, :2].sum(axis=1) / 2 * bins[:, 2]).sum() / want.size
            assert abs(middle - want.mean()) <= bins[0, 1] - bins[0, 0], f"{kind}/{name}: mean {middle}, not {want.mean()}"
    train([0], *one, *sgd, ranks=2)
    assert histograms() == alone, "histograms depend on the number of ranks"
    train([2], *one, "log.formats=jsonl")
    train([2], *one, "dist.shard=optimizer")
    print(f"{len(alone)} histograms")


def newest():
    """The event file that was begun last."""
    return max(pathlib.Path("run/tb").glob("*.charl"))


def main():
    """Kill, tear, resume, and begin afresh."""
    subprocess.run([BIN / "charl", "data", "make", "digits", "digits.h5", "-t", "320", "-v", "64"], check=True,
                   stdout=subprocess.DEVNULL)
    pathlib.Path("run.ini").write_text(CONFIG, encoding="utf-8")
    train([-9], fault="train.backward.kill:11")  # checkpoints of steps 4 and 8 are there, rows up to 9 or 10
    assert max(s for t, s in read_run()[0] if t == "train/loss") > 8, "nothing to cut off"
    whole = newest().read_bytes()
    newest().write_bytes(whole + whole[:40])  # torn in the data
    train([-9], fault="train.backward.kill:3")  # from step 8 on, to 10
    with newest().open("ab") as f:
        f.write(b"\x05\0\0\0\0")  # torn in the length
    train([-9], fault="train.backward.kill:2")  # the same again: the file in between has nothing to keep
    train([0], ranks=2)
    assert check("killed three times", 20) == [0, 9], "each start counts once"
    train([0], "train.max_steps=24")
    assert check("trained on", 24) == [0, 9, 21]
    pathlib.Path("run/tb/events.out.tfevents.1.other").write_bytes(b"of another program")
    train([0], "--overwrite")
    pathlib.Path("run/tb/events.out.tfevents.1.other").unlink()  # it was left alone
    assert check("afresh", 20) == [0]
    newest().rename("run/tb/elsewhere")
    newest_link = pathlib.Path("run/tb/events.out.tfevents.1.charl")
    newest_link.symlink_to("elsewhere")
    train([8], "train.max_steps=21")  # a link is not followed
    newest_link.unlink()
    train([0], "log.formats=jsonl", "--overwrite")
    check_histograms()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
    os.chdir("/")
