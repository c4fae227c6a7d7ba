#!/usr/bin/python3
"""Diffusion models: one of 8 x 8 digits trains to the same bits on 1, 2, 3 and 4 ranks and after a resume, and predicts the noise better than zeros
would; charl eval measures what training measured; its ONNX model, turned around by numpy's DDIM, gives the samples of charl sample, which are
nearer to digits than noise is, and of the digit that is asked for. What does not fit is refused.

onnxruntime and h5py come from PyPI; exit code 77 means that they cannot be had. $CHARL_BIN_DIR holds the programs.
"""
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

from runs import BIN, check_ranks, losses_of, refused, run

CONFIG = """[run]
output_dir = run
seed = 3
[data]
path = d.h5
x = image:/image, digit:/digit:tokens, time:[1]
y = noise:/image:numbers
val_split = 0.1
[diffusion]
schedule = cosine
predict = velocity
[model]
type = sequential
[layer clock]
type = fourier
input = time
octaves = 4
[layer code]
type = embedding
input = digit
vocab = 10
dim = 16
[layer row]
type = flatten
[layer flat]
type = flatten
input = image
[layer told]
type = concat
input = flat, row, clock
[layer hidden1]
type = linear
out = 192
activation = silu
[layer hidden2]
type = linear
out = 192
activation = silu
[layer noise_out]
type = linear
out = 64
[output velocity]
input = noise_out
target = noise
loss = mse
[train]
epochs = 40
batch_size = 48
slices = 4
[optimizer]
learning_rate = 3e-3
[scheduler]
type = cosine
[eval]
metrics = rmse
[device]
share = yes
"""
FONT = [(7, 5, 5, 5, 7), (2, 6, 2, 2, 7), (7, 1, 7, 4, 7), (7, 1, 3, 1, 7), (5, 5, 7, 1, 1), (7, 4, 7, 1, 7), (7, 4, 7, 5, 7), (7, 1, 2, 2, 2),
        (7, 5, 7, 5, 7), (7, 5, 7, 1, 7)]  # rows of 3 pixels
REFUSED = [
    (["data.x=image:/image, digit:/digit:tokens"], r"\[diffusion\] time: data.x has no time:\[1\]"),
    (["data.x=image:/image, digit:/digit:tokens, time:[2]"], r"\[diffusion\] time: data.x has no time:\[1\]"),
    (["data.x=time:[1], image:/image, digit:/digit:tokens"], r"time:\[1\] comes after an input that is an array"),
    (["data.x=image:/image, digit:/digit:tokens, time:[0]"], r"is not NAME:/ARRAY or NAME:\[N\]"),
    (["data.x=image:/image, digit:/digit:tokens, time:[1"], r"is not NAME:/ARRAY or NAME:\[N\]"),
    (["diffusion.input=picture"], r"data.x has no numbers picture; write data.x = picture:/ARRAY, time:\[1\]"),
    (["diffusion.target=v"], r"data.y has no numbers v of the input's array; write data.y = v:/image:numbers"),
    (["data.y=noise:/other:numbers"], r"data.y has no numbers noise of the input's array"),
    (["diffusion.schedule=quadratic"], r"schedule"),
]


def make_data():
    """Digits of 8 x 8 pixels at random places, of random brightness; the file knows their mean and deviation."""
    r, n = np.random.default_rng(0), 2400
    digit = r.integers(0, 10, n)
    x = np.zeros((n, 1, 8, 8), "f4")
    for i, d in enumerate(digit):
        top, left = r.integers(0, 4), r.integers(0, 3)
        glyph = np.array([[int(c) for c in f"{row:03b}"] for row in FONT[d]]).repeat(2, 1)
        x[i, 0, top:top + 5, left:left + 6] = glyph * r.integers(150, 256)
    with h5py.File("d.h5", "w") as f:
        f["image"], f["digit"], f["other"] = x, digit.astype("i4"), x
        f["image"].attrs["mean"], f["image"].attrs["std"] = np.float32(x.mean()), np.float32(x.std())
    return x, digit


def train():
    pathlib.Path("m.ini").write_text(CONFIG, encoding="utf-8")
    check_ranks([BIN / "charl-train", "-q", "m.ini", "train.max_steps=50"], "short", "val/loss", forms=[("passes", ["train.grad_accum_steps=2"])])
    run(0, BIN / "charl-train", "-q", "m.ini", "-o", "run1")
    losses = losses_of("run1")
    said = run(0, BIN / "charl", "eval", "run1/last.h5")
    if abs(float(re.search(r"loss=([0-9.e-]+)", said)[1]) - float(losses[-1])) > 1e-6:
        sys.exit(f"charl eval: {said}, training measured {losses[-1]}")
    print("val/loss", losses[0], "to", losses[-1])
    if not float(losses[-1]) < 0.45:  # zeros have 1
        sys.exit(f"the model does not learn: {losses}")


def philox(position, key):
    """Philox4x32-10 of step 0."""
    c, k = [position, 0, 0, 0], list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def first_noise(n, seed):
    """The noise that the first sample begins with."""
    name = 0xCBF29CE484222325
    for letter in b"sample":
        name = (name ^ letter) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    blocks = np.array([philox(i, (seed ^ name & 0xFFFFFFFF, name >> 32)) for i in range(n)], "u8")
    u, v = (((blocks[:, k + 1] << np.uint64(32)) | blocks[:, k]) >> np.uint64(11) for k in (0, 2))
    return np.sqrt(-2 * np.log(1 - u * 2.0**-53)) * np.cos(2 * np.pi * v * 2.0**-53)


def turn_around(x, digit, steps, predicts, name):
    """numpy's DDIM with the ONNX model, from the same noise: x at time 1, normalized."""
    s = onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"])
    with h5py.File("d.h5") as f:
        mean, std = f["image"].attrs["mean"], f["image"].attrs["std"]
    for k in range(steps, 0, -1):
        t, after = (k - 0.5) / steps, (k - 1.5) / steps if k > 1 else 0.0
        a, b, a2, b2 = np.cos(np.pi / 2 * t), np.sin(np.pi / 2 * t), np.cos(np.pi / 2 * after), np.sin(np.pi / 2 * after)
        out = s.run(None, {"image": (x * std + mean).astype("f4").reshape(-1, 1, 8, 8), "digit": np.full((len(x), 1), digit, "i8"),
                           "time": np.full((len(x), 1), t, "f4")})[0].reshape(x.shape).astype("f8")
        noise, clean = (b * x + a * out, a * x - b * out) if predicts == "velocity" else (out, (x - b * out) / a)
        x = a2 * clean + b2 * noise
    return x * std + mean


def samples(file):
    with h5py.File(file) as f:
        return f["image"][:].astype("f8")


def check_samples(data, labels):
    sample = [BIN / "charl", "sample", "run1", "--input", "digit=3", "--seed", 5]
    run(0, *sample, "-n", 80, "--steps", 20, "-o", "s.h5")
    run(0, *sample, "-n", 3, "--steps", 20, "-o", "few.h5")
    run(0, *sample, "-n", 80, "--steps", 1, "-o", "one.h5")
    run(0, *sample, "-n", 5, "-o", "s.png")
    got = samples("s.h5")
    if got.shape != (80, 1, 8, 8) or not np.array_equal(got[:3], samples("few.h5")):
        sys.exit(f"samples {got.shape} depend on how many there are")
    png = pathlib.Path("s.png").read_bytes()
    if png[:8] != b"\x89PNG\r\n\x1a\n" or (int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")) != (24, 16):
        sys.exit("s.png is no picture of 3 x 2 samples")
    run(0, BIN / "charl", "checkpoint", "export", "run1/last.h5", "-o", "m.onnx")
    noise = first_noise(64, 5).astype("f4").astype("f8")[None]
    for file, steps in (("one.h5", 1), ("s.h5", 20)):
        want = turn_around(noise, 3, steps, "velocity", "m.onnx")
        off = np.abs(samples(file)[:1].reshape(-1) - want.reshape(-1)).max() / data.std()
        if off > 1e-3:
            sys.exit(f"{file}: charl sample is {off} deviations from numpy's DDIM")
    # nearer to a digit than noise is, and most often to a three
    flat, near = data.reshape(len(data), -1), lambda x: np.linalg.norm(x[:, None] - flat[None], axis=2)
    of_noise = near(np.random.default_rng(1).normal(data.mean(), data.std(), (20, 64)))
    of_samples = near(got.reshape(80, 64))
    threes = (labels[of_samples.argmin(1)] == 3).mean()
    print(f"distance to the nearest digit {of_samples.min(1).mean():.1f}, of noise {of_noise.min(1).mean():.1f}; threes {threes:.2f}")
    if not of_samples.min(1).mean() < 0.5 * of_noise.min(1).mean() or threes < 0.6:
        sys.exit("the samples are no threes")


def check_refusals():
    bad = refused("m.ini", REFUSED)
    for code, arguments, wanted in (
            (2, ["run1"], "-o is missing"),
            (2, ["run1", "-o", "x.jpg", "--input", "digit=3"], "samples are written as HDF5"),
            (2, ["run1", "-o", "x.h5"], "the model has an input digit"),
            (2, ["run1", "-o", "x.h5", "--input", "digit=10"], "the model knows the numbers 0 to 9"),
            (2, ["run1", "-o", "x.h5", "--input", "digit=three"], "is not a number"),
            (2, ["run1", "-o", "x.h5", "--input", "digit"], "is not NAME=VALUE"),
            (2, ["run1", "-o", "x.h5", "--input", "digit=3", "--input", "kind=3"], "it has 1, and 2 are given"),
            (2, ["run1", "d.h5", "-o", "x.h5"], "is not SECTION.KEY=VALUE"),
            (2, ["plain", "-o", "x.h5"], "is not a diffusion model")):
        said = run(code, BIN / "charl", "sample", *arguments)
        if wanted not in said:
            bad.append(f"charl sample {arguments}: {said}")
    if "charl sample draws samples" not in run(2, BIN / "charl", "predict", "run1", "-o", "p.csv"):
        bad.append("charl predict")
    if bad:
        sys.exit("\n".join(bad))


def check_best():
    """The loss with another noise does not compare with the best one of before: training looks for a new best checkpoint."""
    settings = [BIN / "charl-train", "-q", "m.ini", "-o", "other", "checkpoint.interval=2", "eval.interval=2", "optimizer.learning_rate=1e-30"]
    run(0, *settings, "train.max_steps=2")
    run(0, *settings, "train.max_steps=4", "diffusion.schedule=linear")
    if pathlib.Path(os.readlink("other/best.h5")).name != "step-00000004.h5":
        sys.exit(f"after another schedule the best checkpoint is {os.readlink('other/best.h5')}")


def main():
    with tempfile.TemporaryDirectory(prefix="charl-diffusion-") as folder:
        os.chdir(folder)
        data, labels = make_data()
        train()
        check_samples(data, labels)
        run(0, BIN / "charl-train", "-q", "m.ini", "diffusion.schedule=none", "train.max_steps=2", "-o", "plain")
        run(0, BIN / "charl-train", "-q", "m.ini", "diffusion.schedule=linear", "diffusion.predict=noise", "train.max_steps=2", "-o", "linear")
        run(0, BIN / "charl", "sample", "linear", "--input", "digit=0", "-n", 2, "--steps", 3, "-o", "linear.h5")
        check_best()
        check_refusals()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
