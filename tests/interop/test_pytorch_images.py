#!/usr/bin/python3
"""Residual networks and layers of images give the same numbers as PyTorch, from the same names.

How they are compared: pytorch_case.py. The models below are torchvision's, from torch.nn alone (test_model_names.py compares them with
torchvision's own); load_state_dict(strict) fails where a name or a shape of charl's differs. CHARL_TEST_LONG=1: more of them.
"""
import os
import pathlib
import sys
import tempfile
from collections import OrderedDict

from pytorch_case import BIN, Case, compare_cases, nn, run

BLOCKS = {18: (2, 2, 2, 2), 20: (3, 3, 3), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class Block(nn.Module):
    """torchvision's BasicBlock and Bottleneck."""

    def __init__(self, before, width, after, stride, groups=1):
        super().__init__()
        bottleneck = width != after
        shapes = ([(before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)]
                  if bottleneck else [(before, width, 3, stride), (width, width, 3, 1)])
        for i, (a, b, kernel, step) in enumerate(shapes, 1):
            self.add_module(f"conv{i}", nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False,
                                                  groups=groups if kernel == 3 else 1))
            self.add_module(f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False),
                                            nn.BatchNorm2d(after))
        self.n = len(shapes)

    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = self.get_submodule(f"bn{i}")(self.get_submodule(f"conv{i}")(y))
            y = nn.functional.relu(y) if i < self.n else y
        return nn.functional.relu(y + (self.downsample(x) if self.downsample else x))


class ResNetModule(nn.Module):
    """torchvision's ResNet, with either stem."""

    def __init__(self, depth, width, cifar, channels, classes):
        super().__init__()
        self.conv1 = (nn.Conv2d(channels, width, 3, 1, 1, bias=False) if cifar
                      else nn.Conv2d(channels, width, 7, 2, 3, bias=False))
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.Identity() if cifar else nn.MaxPool2d(3, 2, 1)
        before = width
        for group, n in enumerate(BLOCKS[depth]):
            blocks = []
            for i in range(n):
                inside = width << group
                after = inside * 4 if depth >= 50 else inside
                blocks.append(Block(before, inside, after, 2 if group > 0 and i == 0 else 1))
                before = after
            self.add_module(f"layer{group + 1}", nn.Sequential(*blocks))
        self.fc, self.groups = nn.Linear(before, classes), len(BLOCKS[depth])

    def forward(self, x):
        x = self.pool(nn.functional.relu(self.bn1(self.conv1(x))))
        for group in range(self.groups):
            x = self.get_submodule(f"layer{group + 1}")(x)
        return self.fc(x.mean((2, 3)))


class ResNet(Case):
    """The model of that name. Batch norm and ReLU amplify a rounding from step to step.

    With the learning rates of real training PyTorch in f32 is 1e-4 away from PyTorch in f64 after
    eight steps, and single units that are on one side of 0 here and on the other there change a
    gradient by a hundredth. So rates are small, and tensors are compared coarsely, losses finely.
    """

    batch = 32
    loss_tolerance = 1e-4
    gradient_tolerance = 0.1
    parameter_tolerance = {"sgd": 0.01, "adamw": 0.02}

    def __init__(self, depth, width, stem, *common, **more):
        super().__init__(f"resnet{depth} {stem}", *common, **more)
        self.depth, self.width, self.stem = depth, width, stem

    def model_ini(self):
        return ["type = resnet", f"depth = {self.depth}", f"width = {self.width}",
                f"stem = {self.stem}"]

    def build_model(self, x, classes):
        return ResNetModule(self.depth, self.width, self.stem == "cifar", x.shape[1], classes)


class DeepResNet(ResNet):
    """Hundreds of layers amplify more: with a learning rate of 1e-6 PyTorch in f32 is 2e-3 away from f64 after 20 steps, with 1e-7 as
    far as 0.25 in an optimizer's state, but 1e-5 in the losses."""

    gradient_tolerance = 0.2

    def comparable(self, name, array):
        """The biases of batch norm, which start at 0, as the mean of a channel, whose deviation is about 1: see test_pytorch_graphs.py."""
        return array + 1 if array.ndim == 1 and name.endswith(".bias") and "/" not in name else array


class Layers(Case):
    """A sequential model: `layers` as charl's sections, modules() as PyTorch's."""

    batch = 32
    layers = {}

    def modules(self, channels, classes):
        raise NotImplementedError

    def model_ini(self):
        lines = ["type = sequential"]
        for name, keys in self.layers.items():
            lines += [f"[layer {name}]", *keys.split("; ")]
        return lines

    def build_model(self, x, classes):
        return nn.Sequential(OrderedDict(self.modules(x.shape[1], classes)))


class Bottlenecks(Layers):
    """Bottleneck blocks with and without groups."""

    layers = {
        "stem": "type = conv2d; channels = 8; kernel = 7; stride = 2; bias = no",
        "pool": "type = max_pool2d; kernel = 3; stride = 2; padding = 1",
        "b1": "type = residual_block; kind = bottleneck; channels = 16",
        "b2": "type = residual_block; kind = bottleneck; channels = 16; width = 8; groups = 4; "
              "stride = 2",
        "b3": "type = residual_block; kind = bottleneck; channels = 16",
        "mean": "type = global_avg_pool",
        "fc": "type = linear; out = 10",
    }

    def modules(self, channels, classes):
        return {"stem": nn.Conv2d(channels, 8, 7, 2, 3, bias=False), "pool": nn.MaxPool2d(3, 2, 1),
                "b1": Block(8, 4, 16, 1), "b2": Block(16, 8, 16, 2, groups=4),
                "b3": Block(16, 4, 16, 1), "mean": nn.AdaptiveAvgPool2d(1), "flat": nn.Flatten(),
                "fc": nn.Linear(16, classes)}


class Transposed(Layers):
    """Images made smaller and larger again, a depthwise convolution, learned slopes, and group norms."""

    layers = {
        "down": "type = conv2d; channels = 8; kernel = 3; stride = 3; padding = 1",
        "gn1": "type = group_norm; groups = 2",
        "slopes": "type = prelu; by_channel = yes",
        "deep": "type = conv2d; channels = 8; kernel = 3; groups = 8",
        "slope": "type = prelu; init = 0.4",
        "up": "type = conv_transpose2d; channels = 4; kernel = 3x4; stride = 2; padding = 1x0; "
              "output_padding = 1; groups = 2",
        "gn2": "type = group_norm; groups = 2; activation = silu",
        "up2": "type = conv_transpose2d; channels = 6; kernel = 2; dilation = 2x1; bias = no",
        "act2": "type = elu; alpha = 0.5",
        "flat": "type = flatten",
        "fc": "type = linear; out = 10",
    }

    def modules(self, channels, classes):
        return {"down": nn.Conv2d(channels, 8, 3, 3, 1), "gn1": nn.GroupNorm(2, 8),
                "slopes": nn.PReLU(8), "deep": nn.Conv2d(8, 8, 3, padding=1, groups=8),
                "slope": nn.PReLU(init=0.4), "up": nn.ConvTranspose2d(8, 4, (3, 4), 2, (1, 0), 1, groups=2),
                "gn2": nn.GroupNorm(2, 4), "silu": nn.SiLU(),
                "up2": nn.ConvTranspose2d(4, 6, 2, bias=False, dilation=(2, 1)),
                "act2": nn.ELU(0.5), "flat": nn.Flatten(), "fc": nn.Linear(6 * 22 * 24, classes)}


CASES = [
    ResNet(18, 4, "cifar", "adamw", 2e-5, 0.05),
    Bottlenecks("bottlenecks", "sgd", 1e-3, 1e-4, nesterov=True),
    Transposed("transposed", "adamw", 1e-3, 0.05),
]
LONG = [
    ResNet(18, 8, "imagenet", "sgd", 1e-5, 1e-4),
    ResNet(20, 8, "cifar", "adamw", 2e-5, 0.05),
    DeepResNet(34, 4, "imagenet", "sgd", 1e-6, 1e-4),
    DeepResNet(50, 4, "cifar", "adamw", 1e-7, 0.05),
    DeepResNet(101, 4, "cifar", "adamw", 1e-7, 0.05),
    DeepResNet(152, 4, "cifar", "adamw", 1e-7, 0.05),
]


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        data = folder / "digits.h5"
        run(BIN / "charl", "data", "make", "digits", data, "--train", 640, "--val", 64)
        cases = CASES + (LONG if os.environ.get("CHARL_TEST_LONG") == "1" else [])
        _, failures = compare_cases(cases, data, folder)
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
