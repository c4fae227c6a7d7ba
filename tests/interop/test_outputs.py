#!/usr/bin/python3
"""Models with several inputs and outputs. A model of every kind of target: losses and metrics by output agree with numpy's, on the device
and on the host; predictions and the ONNX model agree; the bits of 1 rank on 2, 3 and 4, and after a resume; what does not fit is refused.
The example of docs/arrays.md is accepted.

onnxruntime and h5py come from PyPI; exit code 77 means that they cannot be had. $CHARL_BIN_DIR holds the programs.
"""
import csv
import os
import pathlib
import re
import sys
import tempfile

import environment

environment.enter("onnxruntime")

# pylint: disable=wrong-import-position
import h5py
import numpy as np
import onnxruntime

from runs import BIN, check_ranks, columns, refused, run

VAL = 100
CONFIG = """[run]
output_dir = run
seed = 3
[data]
path = d.h5
x = image:/image, numbers:/numbers, words:/words:tokens
y = kind:/kind, amount:/amount, flags:/flags, tags:/tags, mask:/mask
weights = /weights
val_split = 0.25
[model]
type = sequential
[layer conv]
type = conv2d
input = image
channels = 4
kernel = 3
activation = relu
[layer mask]
type = conv2d
channels = 3
kernel = 3
[layer flat]
type = flatten
input = conv
[layer embed]
type = embedding
input = words
vocab = 7
dim = 8
[layer tags]
type = linear
out = 5
[layer text]
type = flatten
input = embed
[layer all]
type = concat
input = flat, numbers, text
[layer hidden]
type = linear
out = 16
activation = relu
[layer kind]
type = linear
out = 3
[layer numbers_out]
type = linear
input = hidden
out = 2
[layer flags]
type = linear
input = hidden
out = 3
[output kind]
loss = cross_entropy
label_smoothing = 0.1
[output amount]
input = numbers_out
loss = l1
weight = 0.5
[output flags]
[output tags]
[output mask]
weight = 2
[train]
epochs = 3
batch_size = 60
slices = 4
[optimizer]
learning_rate = 1e-2
[log]
interval = 1
[eval]
metrics = auto
[checkpoint]
monitor = val/kind.accuracy
[device]
share = yes
"""
REFUSED = [
    (["data.augment=mixup:0.2"], r"\[data\] augment: is for one input and one target"),
    (["data.image_size=4"], r"\[data\] image_size: is for one input"),
    (["data.sampling=balanced"], r"\[data\] sampling: is for one input"),
    (["train.class_weights=balanced"], r"\[train\] class_weights: is for one input"),
    (["log.images=4", "log.formats=tensorboard"], r"\[log\] images: is for one input"),
    (["data.normalize=1/2"], r"\[data\] normalize: one mean and deviation do not fit"),
    (["train.loss=mse"], r"\[train\] loss: each \[output NAME\] has a loss of its own"),
    (["train.label_smoothing=0.1"], r"\[train\] label_smoothing: is a key of a loss"),
    (["checkpoint.monitor=val/accuracy"], r"monitor: is measured for each output: val/NAME.accuracy"),
    (["checkpoint.monitor=val/kin.accuracy"], r"there is no output kin \(did you mean kind\?\)"),
    (["checkpoint.monitor=val/kind.mae"], r"val/kind.mae: the metric is not defined"),
    (["eval.metrics=bits_per_byte"], r"bits_per_byte is not defined for the targets of any output"),
    (["output.tags.loss=mse"], r"loss = mse does not learn from tags, which holds several classes"),
    (["output.kind.smoothing=1"], r"the file has no such key|unknown key"),
    (["output.tags.target=tag"], r"data.y has no target tag \(did you mean tags\?\)"),
    (["output.flags.input=flag"], r"there is no layer flag"),
    (["output.amount.input=hidden"], r"numbers_out: no layer reads it, and it is no output"),
    (["layer.kind.out=2"], r"output kind: layer kind gives \[60, 2\], 2 values for each sample; it must give 3"),
    (["model.type=mlp"], r"outputs belong to model.type = sequential"),
    (["data.x=/image"], r"x and y have names, NAME:/ARRAY, or neither has"),
    (["data.x=image:/image, image:/numbers"], r"two arrays are named image"),
    (["data.x=image:/image, numbers:/none, words:/words:tokens"], r"there is no array /none"),
    (["data.x=image:/image, numbers:/numbers, words:/words:tokens, more:/flags"], r"no layer reads the input more"),
    (["data.x=image:/image, numbers:/short, words:/words:tokens"], r"/image has 400 rows but /short has 10"),
    (["data.x=image:/image, numbers:/numbers, words:/numbers:tokens"], r"is no token; allowed are integers"),
    (["data.y=kind:/amount:classes, amount:/amount, flags:/flags, tags:/tags, mask:/mask"], r"is no class; allowed are integers"),
]


def make_data():
    r, n = np.random.default_rng(0), 400
    words = r.integers(0, 7, (n, 5)).astype("i4")
    image = r.integers(0, 256, (n, 1, 8, 8)).astype("u1")
    numbers = r.normal(size=(n, 3)).astype("f4")
    kind = (words[:, 0] % 3).astype("i4")
    kind[::9] = -1
    tags = (words % 5).astype("i8")
    tags[3, 2:] = tags[n - 2, 2:] = -100
    tags[n - 1] = -1  # none of this sample counts
    mask = (image[:, 0] // 100).astype("u1")
    arrays = {"image": image, "numbers": numbers, "words": words, "kind": kind, "tags": tags, "mask": mask, "short": numbers[:10],
              "amount": np.stack([numbers[:, 0] * 2 + words[:, 1], numbers.sum(1)], 1).astype("f4"),
              "flags": np.stack([numbers[:, 0] > 0, numbers[:, 1] > 0, words[:, 2] > 3], 1).astype("u1"),
              "weights": np.ones(n, "f4")}
    with h5py.File("d.h5", "w") as f:
        for name, values in arrays.items():
            f.create_dataset(name, data=values, chunks=(30, *values.shape[1:]) if name == "image" and n > 30 else None,
                             compression="gzip" if name == "image" else None)
        f["numbers"].attrs["mean"], f["numbers"].attrs["std"] = np.float32(0.5), np.float32(2)
    return {name: values[-VAL:] for name, values in arrays.items() if name != "short"}


def values_of(text):
    """The numbers NAME=VALUE of a line."""
    return {name: float(value) for name, value in re.findall(r"([a-z_.]+)=([-0-9.e+]+)", text)}


def log_softmax(x, axis):
    x = x.astype(np.float64)
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def expect(what, got, want, tolerance=2e-5):
    if not np.allclose(got, want, rtol=tolerance, atol=tolerance):
        sys.exit(f"{what}: {got}, expected {want}")


def of_classes(logits, labels):
    """Loss of each row and accuracy, logits [rows, classes, places]: the mean over the places that count."""
    log_p, counts = log_softmax(logits, 1), labels >= 0
    each = -np.take_along_axis(log_p, np.maximum(labels, 0)[:, None].astype(int), 1)[:, 0]  # smoothed in training only
    n, hit = np.maximum(counts.sum(1), 1), (logits.argmax(1) == labels) & counts
    any_counts = counts.any(1)
    return np.where(counts, each, 0).sum(1) / n, (hit.sum(1) / n)[any_counts].mean(), any_counts


def check_numbers(data, out, said):
    """What charl eval and charl predict measured against numpy, from the outputs that onnxruntime computes."""
    rows = {}
    rows["kind"], accuracy, counted = of_classes(out["kind"][:, :, None], data["kind"][:, None])
    want = {"kind.accuracy": accuracy, "kind.loss": rows["kind"][counted].mean()}
    rows["tags"], want["tags.accuracy"], counted = of_classes(out["tags"].transpose(0, 2, 1), data["tags"])
    want["tags.loss"] = rows["tags"][counted].mean()
    rows["mask"], want["mask.accuracy"], _ = of_classes(out["mask"].reshape(VAL, 3, 64), data["mask"].reshape(VAL, 64).astype(int))
    rows["amount"] = np.abs(out["amount"] - data["amount"]).mean(1)
    x, y = out["flags"].astype(np.float64), data["flags"]
    rows["flags"] = (np.logaddexp(0, x) - x * y).mean(1)
    want["flags.accuracy"] = ((x > 0) == y).mean()
    want.update({f"{name}.loss": rows[name].mean() for name in ("mask", "amount", "flags")})
    want["loss"] = (rows["kind"] + 0.5 * rows["amount"] + rows["flags"] + rows["tags"] + 2 * rows["mask"]).mean()
    for text in said:
        got = values_of(text)
        for name, value in want.items():
            expect(name, got[name], value)


def check_predictions(data, out):
    p = log_softmax(out["kind"], 1)
    want = np.concatenate([p.argmax(1)[:, None], np.exp(p.max(1))[:, None], out["amount"], 1 / (1 + np.exp(-out["flags"])),
                           out["tags"].argmax(2), out["mask"].argmax(1).reshape(VAL, 64)], 1)
    targets = [data["kind"][:, None], data["amount"], data["flags"], data["tags"], data["mask"].reshape(VAL, 64)]
    targets = np.concatenate([np.where((t < 0) & (t.dtype.kind == "i"), np.nan, t) for t in targets], 1)
    with h5py.File("p.h5") as f:
        expect("predictions", f["output"][:], want)
        if not np.array_equal(f["target"][:], targets.astype(np.float32), equal_nan=True):
            sys.exit("the targets in p.h5 are others")
    with open("p.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    expect("p.csv", [[float(r["predicted_kind"]), float(r["predicted_kind_probability"]), float(r["predicted_tags_4"])] for r in rows],
           want[:, [0, 1, 11]])
    if rows[0]["target_kind"] != ("" if data["kind"][0] < 0 else str(data["kind"][0])) or rows[-1]["target_tags_0"] != "":
        sys.exit(f"targets in p.csv: {rows[0]}")


def check_model(data):
    pathlib.Path("m.ini").write_text(CONFIG, encoding="utf-8")
    check_ranks([BIN / "charl-train", "-q", "m.ini"], "run", "step", "train/loss", "val/kind.accuracy", "val/amount.mae", "val/mask.loss", "val/loss")
    measured = [row for row in columns("run", "val/kind.accuracy", "val/loss") if row[1]]
    losses = [float(loss) for _, loss in measured]
    if len(losses) != 3 or not losses[-1] < losses[0] or measured[-1][0] == "":
        sys.exit(f"the model does not learn: {measured}")
    said = [run(0, BIN / "charl", "eval", "run/last.h5")]
    said += [run(0, BIN / "charl", "predict", "run/last.h5", "d.h5", "-o", f"p.{kind}") for kind in ("h5", "csv")]
    run(0, BIN / "charl", "checkpoint", "export", "run/last.h5", "-o", "m.onnx")
    s = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    out = dict(zip([o.name for o in s.get_outputs()],
                   s.run(None, {"image": data["image"].astype("f4"), "numbers": data["numbers"], "words": data["words"].astype("i8")})))
    check_numbers(data, out, said)
    check_predictions(data, out)
    run(0, BIN / "charl", "data", "make", "digits", "both.h5", "-t", len(data["kind"]), "-v", 10)
    with h5py.File("d.h5") as f, h5py.File("both.h5", "a") as g:  # has samples and targets of charl's own layout, too
        for name in f:
            f.copy(name, g)
    run(0, BIN / "charl", "predict", "run/last.h5", "both.h5", "-o", "both.csv")
    if pathlib.Path("both.csv").read_bytes() != pathlib.Path("p.csv").read_bytes():
        sys.exit("a data set with the arrays beside its own has other predictions")
    print("losses, metrics, predictions, ONNX, ranks and resume agree")


def check_data_of_predictions():
    """Without targets, with fewer classes, and with a class or a token that the model does not know."""
    with h5py.File("d.h5") as f:
        arrays = {name: f[name][:20] for name in f}
    for name, change, code, wanted in (
            ("none", {k: None for k in ("kind", "amount", "flags", "tags", "mask")}, 0, "rows=20"),
            ("fewer", {"kind": arrays["kind"] * 0}, 0, "kind.accuracy="),
            ("class", {"kind": arrays["kind"] * 0 + 3}, 3, "kind holds numbers up to 3, run/last.h5 was trained on numbers up to 2"),
            ("token", {"words": arrays["words"] * 0 + 9}, 3, "words holds numbers up to 9"),
            ("kind", {"kind": arrays["kind"].astype("f4")}, 3, "holds kind as numbers, run/last.h5 was trained on classes"),
            ("shape", {"numbers": arrays["numbers"][:, :2]}, 3, "samples of numbers are [2]")):
        with h5py.File(f"{name}.h5", "w") as f:
            for key, values in {**arrays, **change}.items():
                if values is not None and key != "short":
                    f[key] = values
        said = run(code, BIN / "charl", "predict", "run/last.h5", f"{name}.h5", "-o", "q.csv")
        if wanted not in said:
            sys.exit(f"{name}: {said}")


def check_refusals():
    bad = refused("m.ini", REFUSED)
    if bad:
        sys.exit("\n".join(bad))


def check_page():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "arrays.md").read_text(encoding="utf-8")
    text = next(t for t in re.findall(r"```ini\n(.*?)```", page, re.S) if "[output" in t)
    r = np.random.default_rng(1)
    with h5py.File("scans.h5", "w") as f:
        for name, values in {"images": r.integers(0, 256, (200, 1, 8, 8)).astype("u1"), "table": r.normal(size=(200, 4)).astype("f4"),
                             "report": r.integers(0, 5000, (200, 6)), "labels": np.arange(200) % 4,
                             "sizes": r.normal(size=(200, 2)).astype("f4")}.items():
            f[name] = values
    pathlib.Path("page.ini").write_text(text + "[train]\nbatch_size = 20\n", encoding="utf-8")
    run(0, BIN / "charl-train", "page.ini", "--dry-run", "-o", "page")


def main():
    with tempfile.TemporaryDirectory(prefix="charl-outputs-") as folder:
        os.chdir(folder)
        check_model(make_data())
        check_data_of_predictions()
        check_refusals()
        check_page()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
