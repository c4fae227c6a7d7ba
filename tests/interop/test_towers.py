#!/usr/bin/python3
"""Two towers with the loss contrastive: loss and gradients of a step equal those of PyTorch (of numpy's formula where there is no PyTorch) to 1e-5; two views of
digits are found among all of a batch far better than by guessing, in the training and by the embeddings of charl predict; the ONNX model gives the same
ones; the bits of 1 rank on 2, 3 and 4, with divided parameters and after a resume; what does not fit is refused.

onnxruntime and h5py come from PyPI; exit code 77 means that they cannot be had. $CHARL_BIN_DIR holds the programs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import environment

environment.enter("onnxruntime")

# pylint: disable=wrong-import-position
import h5py
import numpy as np
import onnxruntime

from runs import BIN, check_ranks, columns, losses_of, refused, run

ROWS, BATCH, DIM = 480, 48, 16
CONFIG = f"""[run]
output_dir = run
seed = 3
[data]
path = d.h5
x = left:/left, right:/right
y = pair:[{2 * DIM}]
val_split = 0.2
[model]
type = sequential
[layer left_flat]
type = flatten
input = left
[layer left_hidden]
type = linear
out = 48
activation = relu
[layer left_code]
type = linear
out = {DIM}
[layer right_flat]
type = flatten
input = right
[layer right_hidden]
type = linear
out = 48
activation = relu
[layer right_code]
type = linear
out = {DIM}
[layer pair]
type = pair
input = left_code, right_code
[output pair]
loss = contrastive
[train]
epochs = 20
batch_size = {BATCH}
slices = 4
[optimizer]
learning_rate = 3e-3
weight_decay = 0
[device]
share = yes
"""
REFUSED = [
    (["train.grad_accum_steps=2"], r"is a sum over the whole batch in the middle of a step"),
    (["data.forget=3"], r"data.forget: the loss contrastive of the output pair compares each row with all"),
    (["layer.right_code.out=8"], r"pair needs two embeddings"),
    (["layer.pair.input=left_code, right_code, left_code"], r"pair reads 2"),
    (["data.y=pair:[31]"], r"output pair: layer pair gives .* 32 values for each sample; it must give 31"),
    (["layer.pair.temperature=0"], r"temperature"),
]
TORCH = """
import sys
import numpy as np
import torch
from torch.nn import functional
d = np.load("step.npz")
w = {k: torch.tensor(d[k].astype("f8"), requires_grad=True) for k in d if k not in ("left", "right")}
def tower(name):
    x = torch.tensor(d[name].astype("f8")).flatten(1)
    x = (x @ w[name + "_hidden.weight"].T + w[name + "_hidden.bias"]).relu()
    return functional.normalize(x @ w[name + "_code.weight"].T + w[name + "_code.bias"])
logits = w["pair.log_scale"].exp() * tower("left") @ tower("right").T
own = torch.arange(len(logits))
loss = (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2
loss.backward()
np.savez("torch.npz", loss=loss.detach().numpy(), **{k: v.grad.numpy() for k, v in w.items()})
"""


def make_data():
    """Two views of 8 x 8 pixels of each of ROWS digits, which differ in place and strokes: one with noise, the other a noisy negative on its side."""
    r = np.random.default_rng(0)
    strokes = (r.random((10, 5, 5)) < 0.5).astype("f4")
    x = np.zeros((ROWS, 1, 8, 8), "f4")
    for i in range(ROWS):
        top, left = r.integers(0, 4, 2)
        x[i, 0, top:top + 5, left:left + 5] = strokes[i % 10] * r.uniform(0.5, 1, (5, 5))
    left = x + r.normal(0, 0.1, x.shape)
    right = 1 - x.transpose(0, 1, 3, 2) + r.normal(0, 0.1, x.shape)
    with h5py.File("d.h5", "w") as f:
        f["left"], f["right"] = left.astype("f4"), right.astype("f4")
        f["label"] = np.arange(ROWS) % 10
    return left.astype("f4"), right.astype("f4")


def weights(name):
    with h5py.File(name) as f:
        found = {}
        f.visititems(lambda k, v: found.update({k: v[:]}) if isinstance(v, h5py.Dataset) else None)
    return {k.rsplit("/", 1)[-1]: v for k, v in found.items() if re.search(r"(^|/)model/", k)}


def tower(w, name, x):
    x = np.maximum(x.reshape(len(x), -1).astype("f8") @ w[f"{name}_hidden.weight"].T + w[f"{name}_hidden.bias"], 0)
    x = x @ w[f"{name}_code.weight"].T + w[f"{name}_code.bias"]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def loss_of(a, b):
    """Of embeddings that have the factor of the logits."""
    logits = a.astype("f8") @ b.astype("f8").T
    own = np.diag(logits)
    return (np.log(np.exp(logits).sum(1)) + np.log(np.exp(logits).sum(0)) - 2 * own).mean() / 2


def loss_at(w, x):
    scale = np.exp(w["pair.log_scale"] / 2)
    return loss_of(scale * tower(w, "left", x[0]), scale * tower(w, "right", x[1]))


def check_step(left, right):
    """One step of SGD with all rows as the batch: the change of the weights is the gradient."""
    step = [BIN / "charl-train", "-q", "m.ini", f"train.batch_size={ROWS}", "train.max_steps=1", "data.val_split=0", "optimizer.type=sgd",
            "optimizer.momentum=0", "log.interval=1", "--simulate-ranks", 3]
    run(0, *step, "optimizer.learning_rate=1e-30", "-o", "before")
    run(0, *step, "optimizer.learning_rate=1", "-o", "after")
    before, after = weights("before/last.h5"), weights("after/last.h5")
    loss = float(columns("before", "train/loss")[0][0])
    np.savez("step.npz", left=left, right=right, **before)
    python = environment.HOME / f"torch_transformers-{sys.version_info.major}.{sys.version_info.minor}" / "bin" / "python"
    done = subprocess.run([python if python.exists() else "/usr/bin/python3", "-c", TORCH], check=False, capture_output=True, text=True)
    if done.returncode == 0:
        want = dict(np.load("torch.npz"))
    else:  # numpy: differences of the loss along the change, and along two parameters by themselves
        print("without PyTorch")
        want = {"loss": loss_at(before, (left, right))}
        for name, at in (("pair.log_scale", (0,)), ("left_code.weight", (3, 5)), ("right_hidden.bias", (7,))):
            values = []
            for sign in (1, -1):
                w = {k: v.astype("f8") for k, v in before.items()}
                w[name][at] += sign * 1e-5
                values.append(loss_at(w, (left, right)))
            want[name] = np.where(np.arange(before[name].size).reshape(before[name].shape) == np.ravel_multi_index(at, before[name].shape),
                                  (values[0] - values[1]) / 2e-5, np.nan)
    if not abs(loss - want.pop("loss")) < 1e-5:
        sys.exit(f"loss {loss}")
    worst = 0.0
    for name, gradient in want.items():
        off = np.nanmax(np.abs(before[name].astype("f8") - after[name] - gradient))
        worst = max(worst, off)
        if not off < 1e-5:
            sys.exit(f"the gradient of {name} is {off} away")
    print(f"gradients are at most {worst:.1e} away")


def train():
    check_ranks([BIN / "charl-train", "-q", "m.ini", "train.max_steps=20"], "short", "val/loss",
                forms=[("divided", ["--simulate-ranks", 2, "dist.shard=parameters"])])
    run(0, BIN / "charl-train", "-q", "m.ini")
    losses = losses_of("run")
    print(f"val/loss {losses[0]} to {losses[-1]}, of a guess {np.log(BATCH):.2f}")
    if not float(losses[-1]) < 0.3 * np.log(BATCH):
        sys.exit("the towers do not learn")
    if weights("run/last.h5")["pair.log_scale"] == weights("short/last.h5")["pair.log_scale"]:
        sys.exit("the temperature is not learned")


def check_answers(left, right):
    n = ROWS // 5
    left, right = left[-n:], right[-n:]
    run(0, BIN / "charl", "predict", "run/last.h5", "-o", "p.h5")
    with h5py.File("p.h5") as f:
        got = f["output"][:].reshape(n, 2, DIM)
        if set(f) != {"output", "targets"} and "target" in f:
            sys.exit(f"p.h5 has targets: {list(f)}")
    run(0, BIN / "charl", "checkpoint", "export", "run/last.h5", "-o", "m.onnx")
    s = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    out = s.run(["pair"], {"left": left, "right": right})[0].reshape(n, 2, DIM)
    if not np.allclose(got, out, atol=1e-4):
        sys.exit(f"ONNX: {np.abs(got - out).max()} away")
    measured = np.mean([loss_of(got[i:i + BATCH, 0], got[i:i + BATCH, 1]) for i in range(0, n, BATCH)])
    evaluated = float(re.search(r"loss=([0-9.e-]+)", run(0, BIN / "charl", "eval", "run/last.h5"))[1])
    if abs(measured - evaluated) > 1e-5 or abs(evaluated - float(losses_of("run")[-1])) > 1e-6:
        sys.exit(f"loss of the predicted embeddings {measured}, charl eval {evaluated}, training {losses_of('run')[-1]}")
    found = (got[:, 0] @ got[:, 1].T).argmax(1) == np.arange(n)
    print(f"of {n} right views {found.mean():.2f} are found by the left one")
    if found.mean() < 0.5:
        sys.exit("the embeddings do not find each other")


def check_refusals():
    bad = refused("m.ini", REFUSED)
    pathlib.Path("plain.ini").write_text("[data]\npath = d.h5\nx = /left\ny = /label\n[model]\ntype = mlp\n[train]\nloss = contrastive\n", encoding="utf-8")
    if "compares two embeddings, which need names" not in run(2, BIN / "charl-train", "-q", "plain.ini", "-o", "plain"):
        bad.append("train.loss = contrastive")
    alone = run(0, BIN / "charl-train", "m.ini", "-o", "alone", "train.batch_size=1", "train.slices=1", "train.max_steps=1")
    if "train.batch_size = 1: the loss contrastive of the output pair compares the rows of a batch, so it is 0" not in alone:
        bad.append(f"train.batch_size = 1: {alone}")
    if bad:
        sys.exit("\n".join(bad))


def main():
    with tempfile.TemporaryDirectory(prefix="charl-towers-") as folder:
        os.chdir(folder)
        pathlib.Path("m.ini").write_text(CONFIG, encoding="utf-8")
        left, right = make_data()
        check_step(left, right)
        train()
        check_answers(left, right)
        check_refusals()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
