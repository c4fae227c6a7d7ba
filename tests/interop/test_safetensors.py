#!/usr/bin/python3
"""Models go to PyTorch and come back: load_state_dict(strict=True) takes what charl exports as it is
and predicts the same; charl starts from what PyTorch saved, in f32, bf16 and f16, as safetensors and
in every form of torch.save.

The programs in $CHARL_BIN_DIR make the data and train; exit code 77 means that PyTorch is missing.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
from collections import OrderedDict

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BIN = pathlib.Path(os.environ.get("CHARL_BIN_DIR", ""))
DTYPE = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}
CONFIG = """[run]
output_dir = {output}
seed = 5
resume = never
[data]
path = {data}
[model]
type = cnn
channels = 4, 8
hidden = 16
batch_norm = yes
[train]
batch_size = 40
max_steps = {steps}
[checkpoint]
export = {export}
[device]
share = yes
"""


def run(code, *command):
    """Run a program that must end with `code`; returns what it printed."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n"
                 f"{done.stdout}")
    return done.stdout


def load(path):
    """What safetensors.torch.load_file returns, by the definition of the format."""
    blob = path.read_bytes()
    length = struct.unpack("<Q", blob[:8])[0]
    tensors = {}
    for name, info in json.loads(blob[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = info["data_offsets"]
            raw = bytearray(blob[8 + length + begin:8 + length + end])
            tensors[name] = torch.frombuffer(raw, dtype=DTYPE[info["dtype"]]).reshape(info["shape"])
    return tensors


def save(path, tensors):
    names = {v: k for k, v in DTYPE.items()}
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().flatten().view(torch.uint8 if tensor.dim() else tensor.dtype)
        raw = raw.numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def model():
    layers = OrderedDict()
    for i, (narrow, wide) in enumerate(((1, 4), (4, 8)), 1):
        layers[f"conv{i}"] = nn.Conv2d(narrow, wide, 3, padding=1, bias=False)
        layers[f"bn{i}"] = nn.BatchNorm2d(wide)
        layers[f"act{i}"] = nn.ReLU()
        layers[f"pool{i}"] = nn.MaxPool2d(2)
    layers["flatten"] = nn.Flatten()
    layers["fc1"] = nn.Linear(8 * 7 * 7, 16, bias=False)
    layers["fc_bn1"] = nn.BatchNorm1d(16)
    layers["fc_act1"] = nn.ReLU()
    layers["fc2"] = nn.Linear(16, 10)
    return nn.Sequential(layers)


def check(condition, text):
    if not condition:
        sys.exit(text)


def predictions(checkpoint):
    """Probabilities of every validation row."""
    text = run(0, BIN / "charl", "predict", checkpoint, "--all", "--format", "jsonl")
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return np.array([r["probabilities"] for r in rows])


def check_forward(output, data):
    """PyTorch's model with charl's weights predicts what charl predicts."""
    import h5py  # pylint: disable=import-outside-toplevel

    net = model()
    net.load_state_dict(load(output / "last.safetensors"), strict=True)
    check(net.bn1.num_batches_tracked == 20, "num_batches_tracked is not the number of steps")
    with h5py.File(data) as f:
        x = torch.tensor(f["val/x"][...], dtype=torch.float32)
        x = (x - float(f["train/x"].attrs["mean"][0])) / float(f["train/x"].attrs["std"][0])
    with torch.no_grad():
        want = net.eval()(x).softmax(1).numpy()
    worst = np.abs(predictions(output / "last.h5") - want).max()
    check(worst < 1e-5, f"PyTorch predicts otherwise, by {worst}")


def weights_after_start(config, folder, name):
    """Start from a file, train one step at a rate of next to nothing, and export."""
    output = folder / f"from-{name}"
    run(0, BIN / "charl-train", "-q", config, "-o", output, "--init-from", folder / name,
        "train.max_steps=1", "optimizer.learning_rate=1e-30", "optimizer.weight_decay=0",
        "train.ema_decay=0.9")  # the average is exported: it begins with these weights
    run(0, BIN / "charl", "checkpoint", "export", output / "last.h5", "-o", output / "x.safetensors")
    return load(output / "x.safetensors")


def check_mean(config, folder, output):
    """The mean of checkpoints is evaluated, exported and started from, but not resumed."""
    mean = folder / "mean.h5"
    steps = [output / "checkpoints" / f"step-{n:08d}.h5" for n in (10, 20)]
    run(0, BIN / "charl", "checkpoint", "average", *steps, "-o", mean)
    got = []
    for path in (*steps, mean):
        run(0, BIN / "charl", "checkpoint", "export", path, "-o", folder / "one.safetensors")
        got.append(load(folder / "one.safetensors")["fc1.weight"].double())
    check(torch.equal(((got[0] + got[1]) / 2).float(), got[2].float()), "not the mean")
    run(0, BIN / "charl", "eval", config, mean)
    run(0, BIN / "charl-train", "-q", config, "-o", folder / "from-mean", "--init-from", mean)
    said = run(5, BIN / "charl-train", "-q", config, "-o", folder / "no", f"--resume={mean}")
    check("mean.h5 holds weights only and cannot be resumed" in said and "--init-from" in said, said)


def check_average(folder):
    """Where there is a moving average of the weights, that is what others get."""
    import h5py  # pylint: disable=import-outside-toplevel

    output = folder / "averaged"
    run(0, BIN / "charl-train", "-q", folder / "config.ini", "-o", output, "train.ema_decay=0.5",
        "optimizer.learning_rate=0.1")
    for ema, group in (("auto", "ema"), ("yes", "ema"), ("no", "model")):
        run(0, BIN / "charl", "checkpoint", "export", output / "last.h5", "-o",
            output / "x.safetensors", f"--ema={ema}")
        got = load(output / "x.safetensors")
        with h5py.File(output / "last.h5") as f:
            check(np.array_equal(got["fc2.weight"].numpy(), f[f"{group}/fc2.weight"][...])
                  and not np.array_equal(f["ema/fc2.weight"][...], f["model/fc2.weight"][...])
                  and np.array_equal(got["bn1.running_var"].numpy(), f["model/bn1.running_var"][...]),
                  f"--ema={ema} is not /{group}")


def check_start(config, folder):
    torch.manual_seed(1)
    state = model().state_dict()
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16)):
        half = {k: v.to(dtype) if v.is_floating_point() else v for k, v in state.items()}
        save(folder / f"{name}.safetensors", half)
        got = weights_after_start(config, folder, f"{name}.safetensors")
        check(list(sorted(got)) == list(sorted(state)), f"{name}: other names came back")
        for key, value in half.items():
            if "running" not in key and "num_batches" not in key:
                worst = (got[key] - value.float()).abs().max()
                check(worst < 1e-20, f"{name}: {key} came back changed by {worst}")


def check_saved(config, folder):
    """What torch.save writes is read: state dicts, modules and checkpoints, in both of its formats, with shared and strided tensors."""
    torch.manual_seed(1)
    net = model()
    state = net.state_dict()
    strided = OrderedDict(state)
    strided["fc1.weight"] = state["fc1.weight"].t().contiguous().t()
    strided["conv2.weight"] = state["conv2.weight"].to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters()).state_dict()
    torch.save(state, folder / "state.pt")
    torch.save(state, folder / "old.pth", _use_new_zipfile_serialization=False)
    torch.save(state, folder / "protocol4.pt", pickle_protocol=4)
    torch.save(strided, folder / "strided.pt")
    torch.save({"epoch": 3, "state_dict": {f"module.{k}": v for k, v in state.items()}, "optimizer": optimizer},
               folder / "epoch.ckpt")
    torch.save(net, folder / "module.pt")
    torch.jit.script(net).save(folder / "script.pt")
    for name in ("state.pt", "old.pth", "protocol4.pt", "strided.pt", "epoch.ckpt", "module.pt", "script.pt"):
        got = weights_after_start(config, folder, name)
        check(list(sorted(got)) == list(sorted(state)), f"{name}: other names came back")
        for key, value in state.items():
            if "running" not in key and "num_batches" not in key:
                check((got[key] - value).abs().max() < 1e-20, f"{name}: {key} came back changed")
    torch.save({"a": torch.eye(2).to_sparse()}, folder / "sparse.pt")
    said = run(5, BIN / "charl-train", "-q", config, "-o", folder / "no", "--init-from", folder / "sparse.pt")
    check("sparse.pt: a is not a dense tensor" in said, said)


def check_refused(config, folder):
    """One message that names file and tensor."""
    good = {k: v for k, v in model().state_dict().items()}
    cases = {
        "missing": ({k: v for k, v in good.items() if k != "fc2.bias"}, "missing: fc2.bias"),
        "surplus": ({**good, "fc3.bias": torch.zeros(3)}, "extra: fc3.bias"),
        "count": ({**good, "fc2.num_batches_tracked": torch.tensor(3)},
                  "extra: fc2.num_batches_tracked"),
        "shape": ({**good, "fc2.bias": torch.zeros(3)}, "misshapen: fc2.bias is [3] in the file, [10] in the model"),
        "dtype": ({**good, "fc2.bias": torch.zeros(10, dtype=torch.int64)}, "misshapen: fc2.bias is i64; weights are f32, f16, bf16 or f64"),
    }
    for name, (tensors, message) in cases.items():
        path = folder / f"{name}.safetensors"
        save(path, tensors)
        said = run(5, BIN / "charl-train", "-q", config, "-o", folder / "no", "--init-from", path)
        check(message in said and path.name in said and said.count("error") == 2,
              f"{name}: want \"{message}\":\n{said}")


TIED = """[run]
output_dir = {output}
resume = never
[data]
path = {data}
window = 16
[layer embed]
type = embedding
vocab = 256
dim = 8
[layer head]
type = linear
out = 256
tie = embed
bias = no
[train]
batch_size = 16
max_steps = 2
[device]
share = yes
"""


def check_tied(folder):
    """A weight of two layers is there under both names, as in PyTorch, and must come back equal."""
    data, config, output = folder / "text.h5", folder / "tied.ini", folder / "tied"
    path = folder / "tied.safetensors"
    (folder / "text.txt").write_text("abcdefg" * 200)
    run(0, BIN / "charl", "data", "import", "text", folder / "text.txt", "-o", data)
    config.write_text(TIED.format(output=output, data=data))
    run(0, BIN / "charl-train", "-q", config)
    run(0, BIN / "charl", "checkpoint", "export", output / "last.h5", "-o", path)
    net = nn.Sequential(OrderedDict(embed=nn.Embedding(256, 8), head=nn.Linear(8, 256, bias=False)))
    net.head.weight = net.embed.weight
    net.load_state_dict(load(path), strict=True)
    check(torch.equal(load(path)["head.weight"], net.embed.weight), "the shared weight differs")
    run(0, BIN / "charl-train", "-q", config, "-o", folder / "tied2", "--init-from", path)
    save(path, {**load(path), "head.weight": torch.zeros(256, 8)})
    said = run(5, BIN / "charl-train", "-q", config, "-o", folder / "no", "--init-from", path)
    check("head.weight is not equal to embed.weight, but the model has one weight" in said, said)


class Block(nn.Module):
    """A block of nanoGPT: its parameters."""

    def __init__(self, width):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp.c_fc, self.mlp.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)


def check_gpt(folder):
    """nanoGPT's module takes a gpt, by the line that docs/exporting.md gives."""
    config, output = folder / "gpt.ini", folder / "gpt"
    config.write_text(f"[run]\noutput_dir = {output}\nresume = never\n[data]\npath = "
                      f"{folder / 'text.h5'}\n[model]\ntype = gpt\nn_layer = 2\nn_head = 2\n"
                      "n_embd = 8\nblock_size = 16\nbias = yes\n[train]\nbatch_size = 16\n"
                      "max_steps = 1\n[checkpoint]\nexport = safetensors\n[device]\nshare = yes\n")
    run(0, BIN / "charl-train", "-q", config)
    model = nn.Module()
    model.transformer = nn.ModuleDict(dict(
        wte=nn.Embedding(256, 8), wpe=nn.Embedding(16, 8),
        h=nn.ModuleList([Block(8) for _ in range(2)]), ln_f=nn.LayerNorm(8)))
    model.lm_head = nn.Linear(8, 256, bias=False)
    model.transformer.wte.weight = model.lm_head.weight
    tensors = load(output / "last.safetensors")
    model.load_state_dict({k if k.startswith("lm_head") else "transformer." + k: v for k, v in tensors.items()})


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        data, config, output = folder / "digits.h5", folder / "config.ini", folder / "run"
        run(0, BIN / "charl", "data", "make", "digits", data, "--train", 400, "--val", 100)
        config.write_text(CONFIG.format(output=output, data=data, steps=20, export="safetensors"))
        run(0, BIN / "charl-train", "-q", config)
        check((output / "best.safetensors").exists(), "there is no best.safetensors")
        check_forward(output, data)
        check_mean(config, folder, output)
        (folder / "blocked" / "last.safetensors").mkdir(parents=True)
        said = run(0, BIN / "charl-train", config, "-o", folder / "blocked")
        check("warning" in said and "last.safetensors: exists and is not a regular file" in said,
              f"an export that cannot be written: {said}")
        config.write_text(CONFIG.format(output=output, data=data, steps=1, export="none"))
        run(0, BIN / "charl", "checkpoint", "export", output / "last.h5", "-o", folder / "same.safetensors")
        check((folder / "same.safetensors").read_bytes() == (output / "last.safetensors").read_bytes(),
              "charl checkpoint export writes another file than checkpoint.export")
        check_start(config, folder)
        check_saved(config, folder)
        check_refused(config, folder)
        check_average(folder)
        check_tied(folder)
        check_gpt(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
