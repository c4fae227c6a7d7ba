#!/usr/bin/python3
"""What counts in the loss gives the same numbers as in PyTorch: ignore_index, weights of samples, of classes and of
tokens, where the parts of a batch count unevenly, and with label smoothing.

How they are compared: pytorch_case.py. A target is a pair of label and weight.
"""
import json
import pathlib
import shutil
import sys
import tempfile

from pytorch_case import BIN, SHORT, Case, compare_cases, compare_ranks, h5py, nn, np, run, torch
from test_pytorch_gpt import Attention, Gpt, Llama, Model, WINDOW, write_text

functional = nn.functional
RANKS = [3] if SHORT else [2, 3, 4]


def weighted(logits, target, smoothing=0.0, z_loss=0.0):
    """Sum of weight times loss, divided by the sum of the weights, as CrossEntropyLoss does for classes."""
    logits = logits.flatten(0, -2)
    label, weight = target[..., 0].flatten().long(), target[..., 1].flatten()
    each = functional.cross_entropy(logits, label, ignore_index=-1, reduction="none",
                                    label_smoothing=smoothing) + z_loss * logits.logsumexp(1) ** 2
    return (each * weight).sum() / weight.sum()


class Counted:
    """What a case of weights changes."""

    def loss(self, logits, y):
        return weighted(logits, y, self.label_smoothing, self.z_loss)

    def validation(self, logits, y):
        label, weight = y[..., 0].flatten().long(), y[..., 1].flatten()
        right = ((logits.argmax(1) == label) * weight).sum()
        return weighted(logits, y).item(), float(right), float(weight.sum())


class Labels(Counted, Case):
    """Images; 0.4 of the labels are ignored, the first 40 all: slices, and whole ranks, in which nothing counts."""

    class_weights = ""

    def model_ini(self):
        return ["type = mlp", "hidden = 24"]

    def ini(self, data, output):
        text = super().ini(data, output)
        return text.replace("[optimizer]", f"class_weights = {self.class_weights}\n[optimizer]")

    def build_model(self, x, classes):
        class Mlp(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc1, self.fc2 = nn.Linear(x[0].numel(), 24), nn.Linear(24, classes)

            def forward(self, x):
                return self.fc2(functional.relu(self.fc1(x.flatten(1))))
        return Mlp()

    def read_data(self, path, split, dtype):
        x, label = super().read_data(path, split, dtype)
        with h5py.File(path, "r") as f:
            weight = torch.tensor(f[f"{split}/weights"][...].astype("f8"), dtype=torch.float64)
        label = torch.where(label == -100, -1, label)
        weight = torch.where(label < 0, 0.0, weight)
        if split == "train" and self.class_weights:
            weight = weight * self.weights_of(label)[label.clamp(min=0)]
        return x, torch.stack([label.double(), weight], -1).to(dtype)

    def weights_of(self, label):
        if self.class_weights == "balanced":
            count = torch.bincount(label[label >= 0], minlength=10).double()
            return count.sum() / (10 * count)
        return torch.tensor([float(w) for w in self.class_weights.split(",")], dtype=torch.float64)

    def classes(self, y):
        return 10


class Balanced(Labels):
    class_weights = "balanced"


class Listed(Labels):
    class_weights = "1, 0, 2.5, 1, 1, 1, 0.125, 1, 3, 1"


class Masked(Counted, Gpt):
    """A text of whose tokens not all count; of some windows none."""

    def read_data(self, path, split, dtype):
        x, y = super().read_data(path, split, dtype)
        with h5py.File(path, "r") as f:
            w = torch.tensor(f[f"{split}/weights"][...].astype("f8"))
        rows = len(x)
        return x, torch.stack([y.double(), w[1: rows * WINDOW + 1].view(rows, WINDOW)], -1).to(dtype)


class Separate:
    """Documents that share windows: a token sees and predicts its own only. A sample is tokens and starts."""

    def ini(self, data, output):
        return super().ini(data, output).replace("shuffle = no", "shuffle = no\ndocuments = separate")

    def build_model(self, x, classes):
        class Apart(Model):
            def forward(self, x):
                tokens, Attention.start = x.unbind(-1)
                out = super().forward(tokens)
                Attention.start = None
                return out
        return Apart(self, classes)

    def read_data(self, path, split, dtype):
        x, y = super().read_data(path, split, dtype)
        at = torch.arange(x.numel() + 1)
        with h5py.File(path, "r") as f:
            begins = torch.tensor(f[f"{split}/doc_start"][...])
        document = torch.searchsorted(begins, at, right=True) - 1
        start = torch.where(document < 0, 0, begins[document.clamp(min=0)])[:-1].view_as(x)
        start = (start - at[:-1].view_as(x)[:, :1]).clamp(min=0)
        weight = (~torch.isin(at, begins))[1:].view_as(x).double()
        if y.dim() > x.dim():  # with weights of its own
            y[..., 1] *= weight.to(dtype)
        else:
            y = torch.stack([y.double(), weight], -1).to(dtype)
        return torch.stack([x, start], -1), y


class SeparateGpt(Separate, Masked):
    pass


class SeparateLlama(Separate, Counted, Llama):
    pass


LABELS = [Labels("ignored labels", "sgd", 0.05, 0.0),
          Labels("label smoothing, z-loss", "adamw", 1e-3, 0.1, label_smoothing=0.1, z_loss=0.5),
          Balanced("balanced classes", "sgd", 0.05, 0.0),
          Listed("weights of classes", "adamw", 1e-3, 0.1)]
MASKS = [Masked("masked tokens, z-loss", "adamw", 1e-3, 0.1, grad_clip=1.0, z_loss=0.1)]
WEIGHTS = [Masked("weighted tokens", "sgd", 0.05, 0.0)]

DOCUMENTS = [SeparateGpt("separate, masked", "sgd", 0.05, 0.0, grad_clip=1.0)]
ROTARY = [SeparateLlama("separate, rotary", "sgd", 0.05, 0.0)]


def change(source, target, edit):
    shutil.copy(source, target)
    draw = np.random.default_rng(1)
    with h5py.File(target, "r+") as f:
        del f["crc"]
        for split in ("train", "val"):
            edit(f[split], draw)
    return target


def drop_labels(node, draw):
    y = node["y"][...].astype("i4")
    y[draw.random(len(y)) < 0.4] = -100
    y[draw.random(len(y)) < 0.1] = -1
    y[:40] = -1
    del node["y"]
    node["y"] = y
    node["weights"] = draw.random(len(y)).astype("f4")


def mask(node, draw):
    w = (draw.random(len(node["tokens"])) < 0.3).astype("u1")
    w[2000:2120] = 0  # whole windows, but no whole step: PyTorch would divide by 0
    w[:30] = 0
    node["weights"] = w


def weigh(node, draw):
    node["weights"] = draw.random(len(node["tokens"])).astype("f4")


def write_documents(text, path):
    """The words of a text as documents of 1 to 12 words."""
    draw, words = np.random.default_rng(2), text.read_text().split()
    lines = []
    while words:
        n = int(draw.integers(1, 13))
        lines.append(json.dumps({"text": " ".join(words[:n])}))
        words = words[n:]
    path.write_text("\n".join(lines))


def main():
    failures = 0
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        images, text, words = folder / "images.h5", folder / "words.txt", folder / "words.h5"
        lines, documents = folder / "lines.jsonl", folder / "lines.h5"
        run(BIN / "charl", "data", "make", "digits", images, "-t", 1280, "-v", 300)
        write_text(text)
        run(BIN / "charl", "data", "import", "text", text, "--val-split", 0.1, "-o", words)
        write_documents(text, lines)
        run(BIN / "charl", "data", "import", "text", lines, "--val-split", 0.1, "-o", documents)
        for name, source, edit, cases in (("labels", images, drop_labels, LABELS[:1] if SHORT else LABELS),
                                          ("masks", words, mask, MASKS), ("weights", words, weigh, WEIGHTS),
                                          ("documents", documents, mask, DOCUMENTS),
                                          ("rotary", documents, lambda node, draw: None, ROTARY)):
            data = change(source, folder / f"{name}.h5", edit)
            place = folder / name
            outputs, failed = compare_cases(cases, data, place)
            failures += failed
            for ranks in [] if name in ("weights", "rotary") else RANKS:
                (place / f"{ranks}").mkdir(parents=True, exist_ok=True)
                failures += compare_ranks(cases[0], data, place / f"{ranks}", outputs[cases[0].name], ranks=ranks)
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
