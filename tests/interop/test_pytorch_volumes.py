#!/usr/bin/python3
"""Volumes, and the losses of masks, classes and probabilities, give the same numbers as PyTorch.

unet: the configuration of docs/models/unet.md with 3d for 2d, which learns masks by dice. layers: what it does not use, by the focal loss.
maps: a class for each voxel, by cross entropy, focal and dice; void: some voxels and a whole sample that do not count, with weights of classes
and of samples. kl: probabilities. How they are compared: pytorch_case.py, here over 6 steps. CHARL_TEST_SHORT=1: unet and one of void.
"""
import pathlib
import re
import sys
import tempfile
from collections import OrderedDict

import pytorch_case
from pytorch_case import SHORT, Case, compare_cases, compare_ranks, h5py, nn, np, torch

pytorch_case.STEPS, pytorch_case.HALF = 6, 3
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "models" / "unet.md"
functional = nn.functional
BATCH, VAL = 8, 8


class Volumes(Case):
    """Samples with a mean and a deviation per channel, and the losses as their papers write them."""

    batch = BATCH
    parameter_tolerance = {"adamw": 1e-4}
    train_ini = ()

    def ini(self, data, output):
        return super().ini(data, output).replace("[train]\n", "\n".join(["[train]", *self.train_ini]) + "\n")

    def read_data(self, path, split, dtype):
        with h5py.File(path, "r") as f:
            x, y = f[f"{split}/x"][...].astype(np.float64), f[f"{split}/y"][...]
            mean, std = (f["train/x"].attrs[k].astype(np.float64) for k in ("mean", "std"))
        shape = (-1, *[1] * (x.ndim - 2))
        y = torch.tensor(y.astype(np.int64)) if y.ndim == 1 else torch.tensor(y, dtype=dtype)
        return torch.tensor((x - mean.reshape(shape)) / std.reshape(shape), dtype=dtype), y

    def classes(self, y):
        return int(y.max()) + 1 if y.ndim == 1 else y.shape[1]


# unet

class Double(nn.Module):
    def __init__(self, before, channels):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv3d(before, channels, 3, padding=1, bias=False), nn.BatchNorm3d(channels)
        self.conv2, self.bn2 = nn.Conv3d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm3d(channels)

    def forward(self, x):
        return self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())).relu()


class Down(nn.Module):
    def __init__(self, before, channels):
        super().__init__()
        self.conv = Double(before, channels)

    def forward(self, x):
        return self.conv(functional.max_pool3d(x, 2))


class Up(nn.Module):
    def __init__(self, before, channels):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose3d(before, channels, 2, 2), Double(2 * channels, channels)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class UnetModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc, self.down1, self.down2, self.down3 = Double(1, 4), Down(4, 6), Down(6, 8), Down(8, 10)
        self.up1, self.up2, self.up3, self.outc = Up(10, 8), Up(8, 6), Up(6, 4), nn.Conv3d(4, 1, 1)

    def forward(self, x):
        a = self.inc(x)
        b = self.down1(a)
        c = self.down2(b)
        return self.outc(self.up3(self.up2(self.up1(self.down3(c), c), b), a))


class Unet(Volumes):
    train_ini = ["loss = dice", "dice_smooth = 0.5"]

    def model_ini(self):
        text = re.search(r"\[model\]\n(.*?)\[train\]", PAGE.read_text(), re.S).group(1).replace("2d", "3d")
        for old, new in (("16", "4"), ("32", "6"), ("64", "8"), ("128", "10")):
            text = text.replace(f"channels = {old}\n", f"channels = {new}\n")
        return text.splitlines()

    def build_model(self, x, classes):
        return UnetModule()

    def loss(self, logits, y):
        p, t = logits.flatten(2).sigmoid(), y.view(len(y), 1, -1)
        return (1 - (2 * (p * t).sum(2) + 0.5) / (p.sum(2) + t.sum(2) + 0.5)).mean()

    def validation(self, logits, y):
        logits = logits.view(len(y), -1)
        return self.loss(logits[:, None], y).item(), int(((logits > 0) == (y > 0.5)).sum()), y.numel()


# layers

class Upsample(nn.Module):
    def __init__(self, factor, mode):
        super().__init__()
        self.factor, self.mode = factor, mode

    def forward(self, x):
        return functional.interpolate(x, scale_factor=self.factor, mode=self.mode)


class Layers(Volumes):
    train_ini = ["loss = focal", "focal_gamma = 1.5", "focal_alpha = 0.75"]

    def model_ini(self):
        return """type = sequential
[layer c1]
type = conv3d
channels = 6
kernel = 3x2x3
stride = 1x2x1
padding = 1, 1, 0
dilation = 1x1x2
[layer gn]
type = group_norm
groups = 3
activation = silu
[layer p1]
type = max_pool3d
kernel = 2x3x2
stride = 2x1x2
padding = 0x1x1
[layer c2]
type = conv3d
channels = 4
kernel = 3
stride = 2x1x1
groups = 2
bias = no
activation = tanh
[layer t1]
type = conv_transpose3d
channels = 4
kernel = 3x2x2
stride = 2x2x1
padding = 1x0x1
output_padding = 1x0x0
groups = 2
[layer t2]
type = conv_transpose3d
channels = 3
kernel = 2x3x1
dilation = 1x2x1
activation = silu
[layer u1]
type = upsample
factor = 2x1
mode = trilinear
[layer p2]
type = avg_pool3d
kernel = 3x2x1
stride = 2
padding = 1x1x0
[layer u2]
type = upsample
factor = 1x2
depth = 3
[layer c3]
type = conv3d
channels = 5
kernel = 3x1x1
bias = no
[layer bn]
type = batch_norm
activation = relu
[layer gap]
type = global_avg_pool
[layer head]
type = linear
out = 4""".splitlines()

    def build_model(self, x, classes):
        return nn.Sequential(OrderedDict([
            ("c1", nn.Conv3d(x.shape[1], 6, (3, 2, 3), (1, 2, 1), (1, 1, 0), (1, 1, 2))),
            ("gn", nn.GroupNorm(3, 6)), ("a1", nn.SiLU()), ("p1", nn.MaxPool3d((2, 3, 2), (2, 1, 2), (0, 1, 1))),
            ("c2", nn.Conv3d(6, 4, 3, (2, 1, 1), 1, groups=2, bias=False)), ("a2", nn.Tanh()),
            ("t1", nn.ConvTranspose3d(4, 4, (3, 2, 2), (2, 2, 1), (1, 0, 1), (1, 0, 0), groups=2)),
            ("t2", nn.ConvTranspose3d(4, 3, (2, 3, 1), dilation=(1, 2, 1))), ("a3", nn.SiLU()),
            ("u1", Upsample((2, 2, 1), "trilinear")), ("p2", nn.AvgPool3d((3, 2, 1), 2, (1, 1, 0))),
            ("u2", Upsample((3, 1, 2), "nearest")), ("c3", nn.Conv3d(3, 5, (3, 1, 1), padding=(1, 0, 0), bias=False)),
            ("bn", nn.BatchNorm3d(5)), ("a4", nn.ReLU()), ("gap", nn.AdaptiveAvgPool3d(1)), ("flat", nn.Flatten()),
            ("head", nn.Linear(5, 4))]))

    def loss(self, logits, y):
        p = logits.softmax(1).gather(1, y[:, None])[:, 0]
        return (0.75 * (1 - p) ** 1.5 * -p.log()).mean()

    def validation(self, logits, y):
        return self.loss(logits, y).item(), int((logits.argmax(1) == y).sum()), len(y)


# maps

class Maps(Volumes):
    """Three classes of voxels. The loss: how much each voxel adds by cross entropy and focal loss, and the overlap of each class."""

    train_ini = ["loss = auto"]

    def model_ini(self):
        return ["type = sequential", "[layer c1]", "type = conv3d", "channels = 6", "kernel = 3", "activation = relu",
                "[layer c2]", "type = conv3d", "channels = 3", "kernel = 1"]

    def build_model(self, x, classes):
        return nn.Sequential(OrderedDict(c1=nn.Conv3d(1, 6, 3, padding=1), act=nn.ReLU(), c2=nn.Conv3d(6, 3, 1)))

    def read_data(self, path, split, dtype):
        x, y = super().read_data(path, split, dtype)
        return x, y.long()

    def classes(self, y):
        return 3

    def loss(self, logits, y):
        return functional.cross_entropy(logits, y)

    def validation(self, logits, y):
        logits = logits.view(len(y), 3, *y.shape[1:])
        return self.loss(logits, y).item(), int((logits.argmax(1) == y).sum()), y.numel()


class FocalMaps(Maps):
    train_ini = ["loss = focal"]

    def loss(self, logits, y):
        log_p = -functional.cross_entropy(logits, y, reduction="none")
        return ((1 - log_p.exp()) ** 2 * -log_p).mean()


class DiceMaps(Maps):
    train_ini = ["loss = dice"]

    def loss(self, logits, y):
        p, t = logits.softmax(1).flatten(2), functional.one_hot(y, 3).movedim(-1, 1).flatten(2)
        return (1 - (2 * (p * t).sum(2) + 1) / (p.sum(2) + t.sum(2) + 1)).mean()


# void

class Void(Maps):
    """Voxels of -1 and -100 do not count, and those of a class weigh as much as it says. Targets are labels and weights of their samples."""

    train_ini = ["loss = auto", "class_weights = 0.5, 2, 1"]
    weights = [0.5, 2.0, 1.0]

    def read_data(self, path, split, dtype):
        x, y = super().read_data(path, split, dtype)
        with h5py.File(path, "r") as f:
            w = torch.tensor(f[f"{split}/weights"][...] if f"{split}/weights" in f else np.ones(len(y)), dtype=dtype)
        return x, torch.stack([torch.where(y < 0, -1, y).to(dtype), w.view(-1, 1, 1, 1).expand(y.shape)], 1)

    def parts(self, logits, y):
        """Labels, and what each voxel weighs by its sample."""
        labels = y[:, 0].long()
        return labels, torch.where(labels < 0, torch.zeros_like(y[:, 1]), y[:, 1])

    def of_voxels(self, logits, labels):
        return functional.cross_entropy(logits, labels, ignore_index=-1, reduction="none")

    def loss(self, logits, y, weighted=True):
        labels, w = self.parts(logits, y)
        if weighted:
            w = w * torch.tensor(self.weights, dtype=w.dtype)[labels.clamp(min=0)]
        loss = (w * self.of_voxels(logits, labels)).sum() / w.sum()
        if weighted and type(self) is Void:  # no weights of samples: PyTorch's own
            torch.testing.assert_close(loss, functional.cross_entropy(
                logits, labels, torch.tensor(self.weights, dtype=w.dtype), ignore_index=-1))
        return loss

    def validation(self, logits, y):
        """Without the weights of classes, which are those of training."""
        logits = logits.view(len(y), -1, *y.shape[2:])
        labels, w = self.parts(logits, y)
        right = w * (logits.argmax(1) == labels)
        return self.loss(logits, y, weighted=False).item(), (right.sum() / w.sum() * y[:, 0].numel()).item(), y[:, 0].numel()


class VoidFocal(Void):
    """Balanced classes, and samples that are read for each step."""

    train_ini = ["loss = focal", "class_weights = balanced"]

    def ini(self, data, output):
        return super().ini(data, output).replace("[model]\n", "cache = none\n[model]\n")

    def read_data(self, path, split, dtype):
        x, y = super().read_data(path, split, dtype)
        if split == "train":
            labels = y[:, 0].long()
            counts = torch.bincount(labels[labels >= 0])
            self.weights = (counts.sum() / (3.0 * counts)).float().tolist()
        return x, y

    def of_voxels(self, logits, labels):
        loss = super().of_voxels(logits, labels)
        return (1 - (-loss).exp()) ** 2 * loss


class VoidDice(Void):
    """The overlap of the voxels that count, a mean over the samples that have any, by their weights."""

    train_ini = ["loss = dice"]

    def loss(self, logits, y, weighted=True):
        labels, w = self.parts(logits, y)
        counts = (labels >= 0)[:, None].to(w.dtype)
        p = (logits.softmax(1) * counts).flatten(2)
        t = (functional.one_hot(labels.clamp(min=0), 3).movedim(-1, 1) * counts).flatten(2)
        loss = (1 - (2 * (p * t).sum(2) + 1) / (p.sum(2) + t.sum(2) + 1)).mean(1)
        w = w.flatten(1).max(1).values
        return (w * loss).sum() / w.sum()


class VoidTwo(Void):
    """Two classes: train.loss = auto takes cross entropy where some voxels do not count, although it takes bce for masks."""

    train_ini = ["loss = auto"]
    weights = [1.0, 1.0]

    def model_ini(self):
        return [line.replace("= 3", "= 2") if i == 8 else line for i, line in enumerate(super().model_ini())]

    def build_model(self, x, classes):
        return nn.Sequential(OrderedDict(c1=nn.Conv3d(1, 6, 3, padding=1), act=nn.ReLU(), c2=nn.Conv3d(6, 2, 1)))


# kl

class Kl(Volumes):
    train_ini = ["loss = kl"]

    def model_ini(self):
        return ["type = mlp", "hidden = 12", "activation = tanh"]

    def build_model(self, x, classes):
        return nn.Sequential(OrderedDict(fc1=nn.Linear(x.shape[1], 12), act=nn.Tanh(), fc2=nn.Linear(12, classes)))

    def loss(self, logits, y):
        return functional.kl_div(logits.log_softmax(1), y, reduction="batchmean")

    def validation(self, logits, y):
        return self.loss(logits, y).item(), None, None


def make_data(folder):
    """Balls in noise as masks, the classes of their places, and a table of probabilities, of which some are 0."""
    rng, n = np.random.default_rng(0), pytorch_case.STEPS * BATCH + VAL
    grid = np.stack(np.mgrid[:8, :16, :16])[None]
    centre, radius = rng.uniform(3, 12, (n, 3, 1, 1, 1)) * [[[[0.5]]], [[[1]]], [[[1]]]], rng.uniform(2, 5, (n, 1, 1, 1))
    masks = ((grid - centre) ** 2).sum(1) < radius ** 2
    noisy = np.clip(90 * masks + rng.normal(80, 40, masks.shape), 0, 255).astype("u1")[:, None]
    table = rng.normal(size=(n, 5)).astype("f4")
    p = np.exp(3 * table @ rng.normal(size=(5, 4)))
    p /= p.sum(1, keepdims=True)
    p[p < 0.01] = 0
    maps = masks * (1 + (grid[:, 2] > 8))
    void = np.where(rng.random(maps.shape) < 0.2, rng.choice([-1, -100], maps.shape), maps)
    void[3] = void[-2] = -1
    classes = (centre[:, 1, 0, 0, 0] > 7.5) * 2 + (centre[:, 2, 0, 0, 0] > 7.5)
    two = np.concatenate([noisy, 255 - noisy // 2], 1)[:, :, :, :9, :10]
    for name, x, y in (("masks", noisy, masks.reshape(n, -1).astype("f4")), ("classes", two, classes.astype("i4")),
                       ("maps", noisy, maps.astype("i4")), ("void", noisy, void), ("weighted", noisy, void),
                       ("two", noisy, np.minimum(void, 1).astype("i1")), ("probabilities", table, (p / p.sum(1, keepdims=True)).astype("f4"))):
        with h5py.File(folder / f"{name}.h5", "w") as f:
            f.attrs["charl_format"], f.attrs["charl_version"] = np.bytes_("dataset"), 1
            f.attrs["kind"] = np.bytes_("table" if x.ndim == 2 else "images")
            for split, at in (("train", slice(n - VAL)), ("val", slice(n - VAL, n))):
                f[f"{split}/x"], f[f"{split}/y"] = x[at], y[at]
                if name == "weighted":
                    f[f"{split}/weights"] = rng.uniform(0, 3, len(x[at])).astype("f4")
            axes = tuple(i for i in range(x.ndim) if i != 1)
            f["train/x"].attrs["mean"] = x.mean(axes).astype("f4")
            f["train/x"].attrs["std"] = x.std(axes).astype("f4")


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        make_data(folder)
        unet = Unet("unet", "adamw", 1e-3, 0.01)
        outputs, failures = compare_cases([unet], folder / "masks.h5", folder / "unet")
        failures += compare_ranks(unet, folder / "masks.h5", folder, outputs["unet"])
        void = Void("void", "adamw", 1e-3, 0.01)
        outputs, failed = compare_cases([void], folder / "void.h5", folder / "void")
        failures += failed + compare_ranks(void, folder / "void.h5", folder / "void of ranks", outputs["void"], 3)
        for case, data in [] if SHORT else [(Layers("layers", "adamw", 1e-3, 0.01), "classes"),
                                            (Maps("maps", "adamw", 1e-3, 0.01), "maps"),
                                            (FocalMaps("focal", "adamw", 1e-3, 0.01), "maps"),
                                            (DiceMaps("dice", "adamw", 1e-3, 0.01), "maps"),
                                            (VoidFocal("void focal", "adamw", 1e-3, 0.01), "weighted"),
                                            (VoidDice("void dice", "adamw", 1e-3, 0.01), "weighted"),
                                            (VoidTwo("void of two", "adamw", 1e-3, 0.01), "two"),
                                            (Kl("kl", "adamw", 1e-2, 0.01), "probabilities")]:
            failures += compare_cases([case], folder / f"{data}.h5", folder / case.name)[1]
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
