#!/usr/bin/python3
"""Perceptrons and convolutional networks, with every optimizer, give the same numbers as PyTorch.

How they are compared: pytorch_case.py. CHARL_TEST_SHORT=1: a few of the cases.
"""
import pathlib
import sys
import tempfile
from collections import OrderedDict

from pytorch_case import BIN, SHORT, Case, compare, compare_cases, compare_ranks, nn, run, torch

HIDDEN, CHANNELS = 32, (8, 16)
ACTIVATION = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}


class Mlp(Case):
    """A perceptron, layer by layer with charl's names."""

    channels = ()

    def __init__(self, *common, activation="relu", gradient_tolerance=1e-4, **more):
        super().__init__(*common, **more)
        self.activation = activation
        self.gradient_tolerance = gradient_tolerance

    def model_ini(self):
        return ["type = mlp", f"hidden = {HIDDEN}", f"activation = {self.activation}",
                "dropout = 0"]

    def build_model(self, x, classes):
        layers, (channels, height, width) = OrderedDict(), x.shape[1:]
        norm = bool(self.channels)
        for i, wide in enumerate(self.channels, 1):
            layers[f"conv{i}"] = nn.Conv2d(channels, wide, 3, padding=1, bias=False)
            layers[f"bn{i}"] = nn.BatchNorm2d(wide)
            layers[f"act{i}"] = ACTIVATION[self.activation]()
            layers[f"pool{i}"] = nn.MaxPool2d(2)
            channels, height, width = wide, height // 2, width // 2
        layers["flatten"] = nn.Flatten()
        layers["fc1"] = nn.Linear(channels * height * width, HIDDEN, bias=not norm)
        if norm:
            layers["fc_bn1"] = nn.BatchNorm1d(HIDDEN)
        layers["fc_act1"] = ACTIVATION[self.activation]()
        layers["fc2"] = nn.Linear(HIDDEN, classes)
        return nn.Sequential(layers)


class Cnn(Mlp):
    """Convolutions with batch norm in front of a perceptron."""

    channels = CHANNELS

    def model_ini(self):
        return ["type = cnn", f"channels = {', '.join(map(str, CHANNELS))}", "batch_norm = yes",
                *super().model_ini()[1:]]


CASES = [
    Mlp("mlp sgd", "sgd", 0.05, 1e-3),
    Mlp("mlp nesterov", "sgd", 0.05, 1e-3, nesterov=True),
    Mlp("mlp adam", "adam", 1e-3, 1e-3),
    Mlp("mlp adamw", "adamw", 1e-3, 0.05),
    Mlp("mlp rmsprop", "rmsprop", 1e-3, 1e-3),
    Mlp("mlp adagrad", "adagrad", 1e-2, 1e-3),
    Cnn("cnn sgd", "sgd", 0.02, 1e-3),
    Cnn("cnn nesterov", "sgd", 0.02, 1e-3, nesterov=True),
    Cnn("cnn adam", "adam", 1e-3, 1e-3),
    # Rounding decides a maximum here: PyTorch's own f32 is 2e-2 off its f64.
    Cnn("cnn adamw", "adamw", 1e-3, 0.05, gradient_tolerance=1e-3),
    Cnn("cnn clip, smoothing", "sgd", 0.05, 1e-3, grad_clip=0.5, label_smoothing=0.1),
    Mlp("mlp gelu, cosine", "adamw", 2e-3, 0.05, activation="gelu", min_lr=1e-4),
]
IN_SHORT = ["mlp sgd", "cnn adam", "cnn clip, smoothing"]


def check_control(output, data):
    """The tolerances tell a wrong optimizer from a right one: a hundredth of the weight decay."""
    wrong = Mlp("control", "sgd", CASES[0].lr, CASES[0].weight_decay / 100)
    failures = compare(wrong, output, data, torch.float64).failures
    if not any(f.startswith("parameters") for f in failures):
        print("control: a hundredth of the weight decay was not noticed")
        return 1
    return 0


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        data = folder / "digits.h5"
        run(BIN / "charl", "data", "make", "digits", data, "--train", 2000, "--val", 200)
        cases = [c for c in CASES if not SHORT or c.name in IN_SHORT]
        outputs, failures = compare_cases(cases, data, folder)
        case = next(c for c in CASES if c.name == "cnn adam")
        failures += compare_ranks(case, data, folder, outputs[case.name])
        failures += check_control(outputs["mlp sgd"], data)
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
