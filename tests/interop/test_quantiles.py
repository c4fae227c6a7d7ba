#!/usr/bin/python3
"""The loss quantile. Loss, errors, coverage and width agree with numpy's from the outputs of the ONNX model, in the units of the data, of one
output with two targets and of a named one; columns of predictions are named; ensembles average quantiles; the bits of 1 rank on 2 and 3; what
does not fit is refused.

onnxruntime and h5py come from PyPI; exit code 77 means that they cannot be had. $CHARL_BIN_DIR holds the programs.
"""
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import environment

BIN = environment.BIN
environment.enter("onnxruntime")
os.environ.pop("CHARL_BIN_DIR")  # charl warns of variables that it does not know

# pylint: disable=wrong-import-position
import h5py
import numpy as np
import onnxruntime

QUANTILES = [0.1, 0.45, 0.6, 0.9]  # 0.45 is the nearest to 0.5
POINT = 1
CONFIG = """[run]
output_dir = run
seed = 3
[data]
path = t.h5
[model]
type = mlp
hidden = 16
[train]
loss = quantile
quantiles = 0.1, 0.45, 0.6, 0.9
epochs = 4
batch_size = 60
slices = 4
[optimizer]
learning_rate = 1e-2
[eval]
metrics = auto, rmse, r2
[device]
share = yes
"""
NAMED = """[run]
output_dir = named
[data]
path = d.h5
x = x:/x
y = kind:/kind, size:/y
val_split = 0.25
[model]
type = sequential
[layer hidden]
type = linear
out = 16
activation = relu
[layer kind]
type = linear
out = 2
[layer size]
type = linear
input = hidden
out = 8
[output kind]
[output size]
loss = quantile
quantiles = 0.1, 0.45, 0.6, 0.9
weight = 0.5
[train]
epochs = 2
batch_size = 60
[device]
share = yes
"""
REFUSED = [
    ("c.ini", ["train.quantiles=0.5, 0.1"], r"\[train\] quantiles: has 0.1 after 0.5; quantiles are written in ascending order"),
    ("c.ini", ["train.quantiles="], r"\[train\] quantiles: is empty"),
    ("c.ini", ["train.quantiles=0.5, 1"], r"\[train\] quantiles: 1 is out of range \(above 0, below 1\)"),
    ("c.ini", ["train.quantiles=0.5, high"], r"\[train\] quantiles: \"high\" is not a number"),
    ("c.ini", ["train.quantiles=0.9", "eval.metrics=coverage"], r"the metric coverage needs an interval"),
    ("c.ini", ["train.loss=mse", "eval.metrics=coverage"], r"\[eval\] metrics: coverage needs loss = quantile"),
    ("c.ini", ["train.class_weights=balanced"], r"train.class_weights weighs classes for cross_entropy or focal"),
    ("s.ini", [], r"\[60, 2\] does not fit the loss: it needs the quantiles of as many values per sample as the targets \[60, 2\] have, 4 of each"),
    ("n.ini", ["layer.size.out=2"], r"output size: layer size gives \[60, 2\], 2 values for each sample; it must give 8"),
    ("n.ini", ["output.size.quantiles=0.5, 0.1"], r"\[output size\] quantiles: has 0.1 after 0.5"),
]


def run(code, *command):
    """Run a program that must end with `code`; returns what it printed."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n{done.stdout}")
    return done.stdout


def expect(what, got, want, tolerance=2e-5):
    if not np.allclose(got, want, rtol=tolerance, atol=tolerance):
        sys.exit(f"{what}: {got}, expected {want}")


def make_data():
    r = np.random.default_rng(0)
    x = r.uniform(-1, 1, (400, 2))
    y = np.stack([1000 + 50 * x[:, 0] + 20 * r.normal(size=400), x[:, 1] * r.normal(size=400)], 1)
    with open("t.csv", "w", encoding="utf-8") as f:
        f.write("a,b,high,low\n")
        f.writelines(f"{a:.6f},{b:.6f},{h:.6f},{l:.6f}\n" for (a, b), (h, l) in zip(x, y))
    run(0, BIN / "charl", "data", "import", "csv", "t.csv", "--regression", "--label", "high,low", "--val-split", "0.25", "-o", "t.h5")
    with h5py.File("d.h5", "w") as f:
        f["x"], f["y"], f["kind"] = x.astype("f4"), y.astype("f4"), (x[:, 0] > 0).astype("i4")


def values_of(text):
    """The numbers NAME=VALUE of a line."""
    return {name: float(value) for name, value in re.findall(r"([a-z_.0-9]+)=([-0-9.e+]+)", text)}


def measures(out, y, scale):
    """Of outputs [rows, quantiles, targets]: the mean over all of max(q e, (q - 1) e), e the error in units of `scale`, as PyTorch users write it."""
    q, e = np.array(QUANTILES)[:, None], (y[:, None] - out) / scale
    inside = (y >= out[:, 0]) & (y <= out[:, -1])
    point = out[:, POINT] - y
    return {"loss": np.maximum(q * e, (q - 1) * e).mean(), "mae": np.abs(point).mean(), "rmse": np.sqrt((point ** 2).mean(0)).mean(),
            "r2": (1 - (point ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)).mean(), "coverage": inside.mean(),
            "interval_width": (out[:, -1] - out[:, 0]).mean()}


def onnx(checkpoint, inputs):
    run(0, BIN / "charl", "checkpoint", "export", checkpoint, "-o", "m.onnx")
    s = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in s.get_outputs()], s.run(None, inputs)))


def check_table():
    pathlib.Path("c.ini").write_text(CONFIG, encoding="utf-8")
    for ranks in (1, 2, 3):
        run(0, BIN / "charl-train", "-q", "c.ini", "--simulate-ranks", ranks, "-o", f"run{ranks}")
        said = run(0, BIN / "charl", "checkpoint", "diff", "run1/last.h5", f"run{ranks}/last.h5")
        if not re.search("all tensors are equal|^equal", said, re.M):
            sys.exit(f"{ranks} ranks differ: {said}")
    with h5py.File("t.h5") as f:
        x, y, scale = f["val/x"][:], f["val/y"][:].astype(np.float64), f.attrs["target_std"].astype(np.float64)
    out = onnx("run1/last.h5", {"input": x})["output"].reshape(-1, 4, 2).astype(np.float64)
    want = measures(out, y, scale)
    for said in (run(0, BIN / "charl", "eval", "run1/last.h5"), run(0, BIN / "charl", "predict", "run1/last.h5", "-o", "p.csv")):
        got = values_of(said)
        for name, value in want.items():
            expect(name, got[name], value)
    with open("run1/metrics.csv", encoding="utf-8") as f:
        last = [row for row in csv.DictReader(f) if row["val/loss"]][-1]
    expect("metrics.csv", [float(last[f"val/{name}"]) for name in ("loss", "coverage", "interval_width")],
           [want["loss"], want["coverage"], want["interval_width"]])
    with open("p.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    names = [f"prediction_{t}_q{q}" for q in QUANTILES for t in ("high", "low")]
    if list(rows[0]) != ["row", "target_high", "target_low", *names]:
        sys.exit(f"p.csv has the columns {list(rows[0])}")
    expect("p.csv", [[float(r[n]) for n in names] for r in rows], out.reshape(-1, 8), 1e-4)
    report = run(0, BIN / "charl", "eval", "run1/last.h5", "--report")
    if not re.search(r"rmse +r2 +coverage +interval_width\nhigh .*\nlow ", report):
        sys.exit(f"the report: {report}")


def check_ensemble():
    run(0, BIN / "charl-train", "-q", "c.ini", "run.seed=4", "-o", "other")
    run(0, BIN / "charl-train", "-q", "c.ini", "train.quantiles=0.1, 0.5, 0.6, 0.9", "train.epochs=1", "-o", "unlike")
    alone = []
    for name in ("run1", "other"):
        run(0, BIN / "charl", "predict", f"{name}/last.h5", "-o", f"{name}.h5")
        with h5py.File(f"{name}.h5") as f:
            alone.append(f["output"][:])
            if f["targets"][0].decode() != "high_q0.1":
                sys.exit(f"{name}.h5 names its outputs {f['targets'][:]}")
    run(0, BIN / "charl", "predict", "run1/last.h5", "other/last.h5", "-o", "both.h5")
    with h5py.File("both.h5") as f:
        expect("ensemble", f["output"][:], np.mean(alone, 0))
    said = run(2, BIN / "charl", "predict", "run1/last.h5", "unlike/last.h5", "-o", "none.h5")
    if "predicts other quantiles than" not in said:
        sys.exit(f"an ensemble of other quantiles: {said}")


def check_named():
    pathlib.Path("n.ini").write_text(NAMED, encoding="utf-8")
    run(0, BIN / "charl-train", "-q", "n.ini")
    with h5py.File("d.h5") as f:
        x, y = f["x"][-100:], f["y"][-100:].astype(np.float64)
    out = onnx("named/last.h5", {"x": x})["size"].reshape(-1, 4, 2).astype(np.float64)
    want = measures(out, y, 1.0)
    for said in (run(0, BIN / "charl", "eval", "named/last.h5"), run(0, BIN / "charl", "predict", "named/last.h5", "-o", "n.csv")):
        got = values_of(said)
        for name in ("loss", "mae", "coverage", "interval_width"):
            expect(f"size.{name}", got[f"size.{name}"], want[name])
    with open("n.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    names = [f"predicted_size_{t}_q{q}" for q in QUANTILES for t in (0, 1)]
    expect("n.csv", [[float(r[n]) for n in names] for r in rows], out.reshape(-1, 8), 1e-4)


def check_refusals():
    layers = "type = sequential\n[layer out]\ntype = linear\nout = 2\n"
    pathlib.Path("s.ini").write_text(CONFIG.replace("type = mlp\nhidden = 16\n", layers), encoding="utf-8")
    for file, settings, wanted in REFUSED:
        done = subprocess.run([BIN / "charl-train", "-q", file, "-o", "refused", *settings], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=1500, check=False)
        if done.returncode == 0 or not re.search(wanted, done.stdout):
            sys.exit(f"{file} {settings}: exit code {done.returncode}, without \"{wanted}\": {done.stdout}")


def main():
    with tempfile.TemporaryDirectory(prefix="charl-quantiles-") as folder:
        os.chdir(folder)
        make_data()
        check_table()
        check_ensemble()
        check_named()
        check_refusals()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
