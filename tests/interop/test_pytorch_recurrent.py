#!/usr/bin/python3
"""Recurrent networks over the rows of an image give the same numbers as PyTorch.

How they are compared: pytorch_case.py.
"""
import pathlib
import sys
import tempfile

from pytorch_case import BIN, Case, compare_cases, compare_ranks, nn, run

HIDDEN = 24


class RecurrentModule(nn.Module):
    """The last output of a recurrent network, through a linear layer."""

    def __init__(self, kind, features, layers, bias, classes):
        super().__init__()
        self.rnn = kind(features, HIDDEN, layers, bias=bias, batch_first=True)
        self.fc = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.fc(self.rnn(x.squeeze(1))[0][:, -1])


class Recurrent(Case):
    batch = 32

    def __init__(self, kind, layers, *common, bias=True, **more):
        super().__init__(*common, **more)
        self.kind, self.layers, self.bias = kind, layers, bias

    def model_ini(self):
        return ["type = sequential", "[layer rnn]", f"type = {self.kind}", f"hidden_size = {HIDDEN}",
                f"num_layers = {self.layers}", f"bias = {'yes' if self.bias else 'no'}",
                "last = yes", "[layer fc]", "type = linear", "out = 10"]

    def build_model(self, x, classes):
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[self.kind]
        return RecurrentModule(kind, x.shape[3], self.layers, self.bias, classes)


CASES = [
    Recurrent("lstm", 2, "lstm", "adamw", 2e-3, 0.05),
    Recurrent("gru", 2, "gru", "adamw", 2e-3, 0.05),
    Recurrent("gru", 1, "gru, no bias", "sgd", 0.05, 1e-3, bias=False, grad_clip=0.5),
]


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        data = folder / "digits.h5"
        run(BIN / "charl", "data", "make", "digits", data, "--train", 640, "--val", 64)
        outputs, failures = compare_cases(CASES, data, folder)
        failures += compare_ranks(CASES[0], data, folder, outputs[CASES[0].name])
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
