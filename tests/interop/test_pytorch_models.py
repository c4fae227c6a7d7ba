#!/usr/bin/python3
"""Models that docs/models describes as configurations of layers give the same numbers as PyTorch: mobilenet, convnext, autoencoder and tcn.

The modules below are written with torch.nn. Their parameter counts at the usual sizes are the paper's and torchvision's. How they are
compared: pytorch_case.py.
"""
import pathlib
import sys
import tempfile
from collections import OrderedDict

from pages import MOBILENET, convnext_page, count, mobilenet_page, page, report_count
from pytorch_case import BIN, Case, compare_cases, compare_ranks, h5py, nn, np, run, torch

functional = nn.functional
WINDOW, VOCAB = 24, 256


def modules(**named):
    return nn.Sequential(OrderedDict(named))


class Separable(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.depthwise = nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False)
        self.pointwise = nn.Conv2d(before, after, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(before), nn.BatchNorm2d(after)

    def forward(self, x):
        return self.bn2(self.pointwise(self.bn1(self.depthwise(x)).relu())).relu()


class MobilenetModule(nn.Module):
    def __init__(self, channels, width, classes):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        for i, (a, b, stride, repeat) in enumerate(MOBILENET, 1):
            layers = [Separable(a * width, b * width, stride) for _ in range(repeat)]
            self.add_module(f"s{i}", nn.Sequential(*layers) if repeat > 1 else layers[0])
        self.head = nn.Linear(32 * width, classes)

    def forward(self, x):
        x = self.bn(self.stem(x)).relu()
        for i in range(1, len(MOBILENET) + 1):
            x = self.get_submodule(f"s{i}")(x)
        return self.head(x.mean((2, 3)))


class Mobilenet(Case):
    """Batch norm and ReLU amplify a rounding from step to step: see ResNet and DeepResNet in test_pytorch_images.py."""

    batch = 16
    loss_tolerance = 1e-4
    gradient_tolerance = 0.1
    parameter_tolerance = {"adamw": 0.02}
    width = 4

    def model_ini(self):
        return mobilenet_page(self.width)

    def build_model(self, x, classes):
        return MobilenetModule(x.shape[1], self.width, classes)

    def comparable(self, name, array):
        return array + 1 if array.ndim == 1 and name.endswith(".bias") and "/" not in name else array


class ChannelNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels, 1e-6)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Factors(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))


class ConvnextBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(dim, dim, 7, padding=3, groups=dim), nn.LayerNorm(dim, 1e-6)
        self.fc1, self.fc2, self.gamma = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim), Factors(dim)

    def forward(self, x):
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.fc2(functional.gelu(self.fc1(y))) * self.gamma.weight
        return x + y.permute(0, 3, 1, 2)


class ConvnextModule(nn.Module):
    def __init__(self, channels, dims, repeats, classes):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(channels, dims[0], 2, 2), ChannelNorm(dims[0])
        for i, (dim, repeat) in enumerate(zip(dims, repeats), 1):
            if i > 1:
                self.add_module(f"down{i}", modules(norm=ChannelNorm(dims[i - 2]), conv=nn.Conv2d(dims[i - 2], dim, 2, 2)))
            self.add_module(f"stage{i}", nn.Sequential(*(ConvnextBlock(dim) for _ in range(repeat))))
        self.norm, self.head = nn.LayerNorm(dims[-1], 1e-6), nn.Linear(dims[-1], classes)

    def forward(self, x):
        x = self.stem_norm(self.stem(x))
        for i in range(1, 5):
            x = self.get_submodule(f"down{i}")(x) if i > 1 else x
            x = self.get_submodule(f"stage{i}")(x)
        return self.head(self.norm(x.mean((2, 3))))


class Convnext(Case):
    """gamma starts at 0.5: with 1e-6 the branches would hardly count."""

    batch = 16
    loss_tolerance = 1e-4
    gradient_tolerance = 1e-3
    parameter_tolerance = {"adamw": 1e-3}
    dims, repeats = (8, 12, 16, 24), (2, 2, 3, 2)

    def model_ini(self):
        return convnext_page(self.dims, self.repeats, "block convnext.gamma.init=0.5")

    def build_model(self, x, classes):
        return ConvnextModule(x.shape[1], self.dims, self.repeats, classes)


class AutoencoderModule(nn.Module):
    def __init__(self):
        super().__init__()
        for i, (a, b) in enumerate(((1, 4), (4, 6), (6, 8)), 1):
            self.add_module(f"down{i}", modules(conv=nn.Conv2d(a, b, 3, 2, 1)))
        self.code, self.wide = nn.Linear(128, 12), nn.Linear(12, 128)
        self.up1, self.up2 = (modules(conv=nn.ConvTranspose2d(a, b, 2, 2)) for a, b in ((8, 6), (6, 4)))
        self.image = nn.ConvTranspose2d(4, 1, 2, 2)

    def forward(self, x):
        for i in range(1, 4):
            x = self.get_submodule(f"down{i}")(x).relu()
        x = self.wide(self.code(x.flatten(1))).relu().view(-1, 8, 4, 4)
        return self.image(self.up2(self.up1(x).relu()).relu())


class Autoencoder(Case):
    batch = 32

    def model_ini(self):
        return page("autoencoder", *(f"layer {name}.channels={n}" for name, n in (("down1", 4), ("down2", 6), ("down3", 8), ("up1", 6), ("up2", 4))),
                    "layer code.out=12", "layer wide.out=128", "layer grid.shape=8, 4, 4")

    def ini(self, data, output):
        return super().ini(data, output).replace("[train]", "[train]\nloss = mse")

    def read_data(self, path, split, dtype):
        with h5py.File(path, "r") as f:
            return tuple(torch.tensor(f[f"{split}/{part}"][...], dtype=dtype) for part in "xy")

    def build_model(self, x, classes):
        return AutoencoderModule()

    def loss(self, logits, y):
        return functional.mse_loss(logits.flatten(1), y)

    def validation(self, logits, y):
        return self.loss(logits.view(len(y), -1), y).item(), None, None


class Temporal(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv1d(channels, channels, 3, dilation=dilation) for _ in range(2))
        self.before = 2 * dilation

    def forward(self, x):
        y = x
        for conv in (self.conv1, self.conv2):
            y = conv(functional.pad(y, (self.before, 0))).relu()
        return (y + x).relu()


class TcnModule(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, channels), nn.Linear(channels, VOCAB)
        for i in range(5):
            self.add_module(f"t{i + 1}", Temporal(channels, 1 << i))

    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        for i in range(1, 6):
            x = self.get_submodule(f"t{i}")(x)
        return self.head(x.transpose(1, 2))


class Tcn(Case):
    batch = 8

    def model_ini(self):
        return page("tcn", "block temporal.drop1.p=0", "block temporal.drop2.p=0", "layer embed.dim=12",
                    *(f"layer t{i}.channels=12" for i in range(1, 6)))

    def ini(self, data, output):
        return super().ini(data, output).replace("shuffle = no", f"shuffle = no\nwindow = {WINDOW}")

    def classes(self, y):
        return VOCAB

    def read_data(self, path, split, dtype):
        with h5py.File(path, "r") as f:
            tokens = torch.tensor(f[f"{split}/tokens"][...].astype(np.int64))
        n = (len(tokens) - 1) // WINDOW
        return tokens[:n * WINDOW].view(n, WINDOW), tokens[1:n * WINDOW + 1].view(n, WINDOW)

    def build_model(self, x, classes):
        return TcnModule(12)


def write_images(path):
    """Noisy images of 32x32 and the same without noise."""
    draw = np.random.default_rng(3)
    with h5py.File(path, "w") as f:
        f.attrs["charl_format"], f.attrs["charl_version"], f.attrs["kind"] = np.bytes_("dataset"), 1, np.bytes_("images")
        for split, n in (("train", 640), ("val", 64)):
            clean = (draw.random((n, 1, 4, 4)) < 0.5).repeat(8, 2).repeat(8, 3).astype("f4")
            f[f"{split}/x"], f[f"{split}/y"] = clean + 0.2 * draw.standard_normal(clean.shape).astype("f4"), clean.reshape(n, -1)


def check_counts(folder):
    size = ("--input", "3x224x224", "--outputs", 1000)
    lines = convnext_page((96, 192, 384, 768), (3, 3, 9, 3), "layer stem.kernel=4", "layer stem.stride=4", "layer head.out=1000")
    return (report_count("mobilenet", count(folder, page("mobilenet", "layer head.out=1000"), *size), 4231976)
            + report_count("convnext tiny", count(folder, lines, *size), 28589128))


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        digits, images, text = folder / "digits.h5", folder / "images.h5", folder / "text.h5"
        run(BIN / "charl", "data", "make", "digits", digits, "--train", 640, "--val", 64)
        write_images(images)
        (folder / "text.txt").write_text(" ".join(str(i * i % 997) for i in range(1500)))
        run(BIN / "charl", "data", "import", "text", folder / "text.txt", "-o", text, "--val-split", "0.1")
        failures = check_counts(folder)
        convnext = Convnext("convnext", "adamw", 1e-3, 0.05)
        for data, cases in ((digits, [Mobilenet("mobilenet", "adamw", 2e-6, 0.05), convnext]),
                            (images, [Autoencoder("autoencoder", "adamw", 1e-3, 0.0)]), (text, [Tcn("tcn", "adamw", 1e-3, 0.0)])):
            outputs, failed = compare_cases(cases, data, folder / data.stem)
            failures += failed
            if convnext in cases:
                failures += compare_ranks(convnext, data, folder, outputs["convnext"])
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
