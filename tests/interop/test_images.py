#!/usr/bin/python3
"""charl's operators on images beside torchvision and Pillow: resized crops, changes of colours and of place, for the same numbers, differ
by one level of 256 at most; CMYK pictures are read as Pillow reads them. If it failed, a published recipe would train on other images than
the ones it was published for."""
import importlib.util
import subprocess
import sys
import tempfile

import environment

for package in ("torch", "h5py"):
    if importlib.util.find_spec(package) is None:
        print(f"skipped: python3 has no {package}")
        sys.exit(77)
environment.enter("images")

# pylint: disable=wrong-import-position
import pathlib
import warnings

import h5py
import numpy as np
import torch
from PIL import Image

warnings.filterwarnings("ignore")
import torchvision.transforms.functional as F
from torchvision.transforms import InterpolationMode

BIN = environment.BIN
RUN = BIN.parent.parent / "tests" / "interop" / "transform_images"
NONE, BRIGHTNESS, CONTRAST, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE, SATURATION, HUE, SHARPNESS, AFFINE = range(11)
H, W, OUT = 40, 56, (24, 32)


def changed(x, boxes, kinds, amounts, out):
    """What charl makes of images u8 [n, channels, h, w]: resized boxes, changed images."""
    n, c, h, w = x.shape
    data = b"".join(np.ascontiguousarray(a, t).tobytes() for a, t in (
        ([n, c, h, w, *out], "i4"), (boxes, "f4"), (kinds, "i4"), (amounts, "f4"), (x, "f4")))
    done = subprocess.run([RUN], input=data, stdout=subprocess.PIPE, check=True)
    values = np.frombuffer(done.stdout, "f4")
    crops = n * c * out[0] * out[1]
    return values[:crops].reshape(n, c, *out), values[crops:].reshape(x.shape)


def six(*values):
    return list(values) + [0] * (6 - len(values))


def affine(x, angle=0.0, translate=(0, 0), shear=(0.0, 0.0), center=None):
    return F.affine(x, angle, list(translate), 1.0, list(shear), interpolation=InterpolationMode.BILINEAR, center=center)


def degrees(tangent):
    return float(np.degrees(np.arctan(tangent)))


def cases():
    """Kind, amounts, and the same in torchvision."""
    yield "none", NONE, six(), lambda x: x
    for f in (0.0, 0.55, 1.0, 1.27, 1.9):
        yield f"brightness {f}", BRIGHTNESS, six(f), lambda x, f=f: F.adjust_brightness(x, f)
        yield f"contrast {f}", CONTRAST, six(f), lambda x, f=f: F.adjust_contrast(x, f)
        yield f"saturation {f}", SATURATION, six(f), lambda x, f=f: F.adjust_saturation(x, f)
        yield f"sharpness {f}", SHARPNESS, six(f), lambda x, f=f: F.adjust_sharpness(x, f)
    for f in (-0.5, -0.13, 0.0, 0.08, 0.4):
        yield f"hue {f}", HUE, six(f), lambda x, f=f: F.adjust_hue(x, f)
    for bits in (4, 5, 7, 8):
        yield f"posterize {bits}", POSTERIZE, six(bits), lambda x, bits=bits: F.posterize(x, bits)
    for t in (0.0, 76.5, 178.5, 255.0):
        yield f"solarize {t}", SOLARIZE, six(t / 255), lambda x, t=t: F.solarize(x, t)
    yield "autocontrast", AUTOCONTRAST, six(), F.autocontrast
    yield "equalize", EQUALIZE, six(), F.equalize
    for m in (-0.3, 0.09, 0.21):
        yield f"shear x {m}", AFFINE, six(1, m, m * H / 2, 0, 1), lambda x, m=m: affine(x, shear=(degrees(m), 0.0), center=[0, 0])
        yield f"shear y {m}", AFFINE, [1, 0, 0, m, 1, m * W / 2], lambda x, m=m: affine(x, shear=(0.0, degrees(m)), center=[0, 0])
    for d in (-7, 12):
        yield f"translate x {d}", AFFINE, six(1, 0, -d, 0, 1), lambda x, d=d: affine(x, translate=(d, 0))
        yield f"translate y {d}", AFFINE, [1, 0, 0, 0, 1, -d], lambda x, d=d: affine(x, translate=(0, d))
    for angle in (-30.0, 9.0):
        c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        yield f"rotate {angle}", AFFINE, six(c, s, 0, -s, c), lambda x, a=angle: F.rotate(x, -a, interpolation=InterpolationMode.BILINEAR)


def pictures(n, channels):
    """Photographs have neighbours that are alike, areas of one colour and a range of levels that is not whole."""
    draw = np.random.default_rng(5)
    x = np.zeros((n, channels, H, W))
    for k in range(n):
        for c in range(channels):
            coarse = draw.uniform(20, 235, (6, 8)).astype("f4")
            x[k, c] = np.asarray(Image.fromarray(coarse).resize((W, H), Image.BICUBIC)) + draw.normal(0, 9, (H, W))
        x[k, :, :9, :9] = draw.integers(0, 256)
    return x.clip(3, 240).round().astype("u1")


def main():
    failures = 0
    for channels in (3, 1):
        table = list(cases())
        x = pictures(len(table), channels)
        draw = np.random.default_rng(7)
        boxes = []
        for _ in table:
            h, w = draw.integers(6, H + 1), draw.integers(6, W + 1)
            boxes.append([draw.integers(0, H - h + 1), draw.integers(0, W - w + 1), h, w])
        crops, got = changed(x, boxes, [t[1] for t in table], [t[2] for t in table], OUT)
        for k, (name, _, _, other) in enumerate(table):
            image = torch.from_numpy(x[k])
            far = np.abs(other(image).numpy().astype(int) - got[k]).max()
            crop = F.resized_crop(image, *map(int, boxes[k]), list(OUT), antialias=True).numpy()
            crop_far = np.abs(crop.astype(int) - crops[k].round()).max()
            pillow = Image.fromarray(x[k, 0]).crop((boxes[k][1], boxes[k][0], boxes[k][1] + boxes[k][3], boxes[k][0] + boxes[k][2]))
            pillow_far = np.abs(np.asarray(pillow.resize(OUT[::-1], Image.BILINEAR)).astype(int) - crops[k, 0].round()).max()
            moved = np.abs(got[k] - x[k]).max()
            for what, value in ((name, far), (f"crop {boxes[k]}", crop_far), (f"crop {boxes[k]} by Pillow", pillow_far)):
                if value > 1:
                    print(f"FAIL: {what}, {channels} channels: {value} levels apart")
                    failures += 1
            if channels == 3 and name.split()[-1] not in ("none", "1.0", "0.0", "7", "8", "255.0") and moved < 2:
                print(f"FAIL: {name} changes nothing")
                failures += 1
        print(f"{len(table)} changes of images with {channels} channels")
    with tempfile.TemporaryDirectory() as folder:
        want = []
        for k, quality in enumerate((75, 95)):
            path = pathlib.Path(folder) / "print" / f"class{k}" / "x.jpg"
            path.parent.mkdir(parents=True)
            ink = np.random.default_rng(k).integers(0, 256, (4, 4, 4), dtype="u1").repeat(8, 0).repeat(8, 1)
            Image.fromarray(ink, "CMYK").save(path, quality=quality)
            want.append(np.asarray(Image.open(path).convert("RGB")).transpose(2, 0, 1).astype(int))
        subprocess.run([BIN / "charl", "data", "import", "images", f"{folder}/print", "--size", "32", "-o", f"{folder}/p.h5"], check=True,
                       stdout=subprocess.DEVNULL)
        with h5py.File(f"{folder}/p.h5") as f:
            for x, y in zip(f["train/x"][:].astype(int), f["train/y"][:]):
                if np.abs(x - want[y]).max() > 1:
                    print(f"FAIL: a CMYK picture is {np.abs(x - want[y]).max()} levels apart from Pillow's")
                    failures += 1
    return failures > 0


sys.exit(main())
