#!/usr/bin/python3
"""Models of images, as torchvision and timm name them: charl reads a narrow one of each family from PyTorch's file, its outputs and the losses of
20 steps of AdamW are PyTorch's, and PyTorch strictly loads what charl exports. Settings that a family does not have are refused by name.

torchvision and timm come from PyPI, beside the distribution's PyTorch; exit code 77 means that they are missing.
    test_vision.py [NAME ...]    only these
"""
import copy
import importlib.util
import pathlib
import sys
import tempfile
import warnings

import environment

for package in ("torch", "h5py"):
    if importlib.util.find_spec(package) is None:
        print(f"skipped: python3 has no {package}")
        sys.exit(77)
environment.enter("images")

# pylint: disable=wrong-import-position
import numpy as np
import torch

warnings.filterwarnings("ignore")
import timm
import torchvision

import published

# eps, because AdamW makes steps of the roundings of gradients near 0.
CLASSES, STEPS, BATCH, SIZE, RATE, EPS = 5, 20, 8, 64, 1e-4, 1e-8


class NarrowResNet(torchvision.models.ResNet):
    """An eighth of the channels."""

    def __init__(self, *args, **more):
        super().__init__(*args, num_classes=CLASSES, **more)
        self.conv1, self.bn1 = torch.nn.Conv2d(3, 8, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(8)
        self.fc = torch.nn.Linear(self.fc.in_features // 8, CLASSES)
        for module in self.modules():
            if isinstance(module, BOTTLENECK):
                torch.nn.init.constant_(module.bn3.weight, 0.2)  # else 50 layers of random weights amplify every rounding

    def _make_layer(self, block, planes, *args, **more):
        self.inplanes = 8 if planes == 64 else self.inplanes
        return super()._make_layer(block, planes // 8, *args, **more)


def resnet(*args, **more):
    return lambda: NarrowResNet(*args, **more)


def resnet_of_timm(**more):
    """As narrow, with a deep stem."""
    make = timm.models.resnet.make_blocks

    def narrow(block, channels, repeats, _, *args, **others):
        return make(block, [c // 8 for c in channels], repeats, 8, *args, **others)

    timm.models.resnet.make_blocks = narrow
    try:
        model = timm.models.resnet.ResNet(num_classes=CLASSES, stem_type="deep", stem_width=4, avg_down=True, **more)
    finally:
        timm.models.resnet.make_blocks = make
    model.conv1[6], model.bn1 = torch.nn.Conv2d(4, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8)
    model.fc = torch.nn.Linear(model.fc.in_features // 8, CLASSES)
    return model


BASIC, BOTTLENECK = torchvision.models.resnet.BasicBlock, torchvision.models.resnet.Bottleneck
# Lines of [model], and the model.
FAMILIES = {
    "resnet18": (["type = resnet", "depth = 18", "width = 8"], resnet(BASIC, [2, 2, 2, 2])),
    "resnext50": (["type = resnet", "depth = 50", "width = 8", "groups = 2", "group_width = 32"],
                  resnet(BOTTLENECK, [3, 4, 6, 3], groups=2, width_per_group=32)),
    "resnet18d of timm": (["type = resnet", "depth = 18", "width = 8", "stem = deep", "pool_shortcut = yes"],
                          lambda: resnet_of_timm(block=timm.models.resnet.BasicBlock, layers=[2, 2, 2, 2])),
}
REFUSED = {
    "groups of basic blocks": (["type = resnet", "depth = 34", "groups = 32"], "groups"),
    "width of basic blocks": (["type = resnet", "depth = 18", "group_width = 128"], "group_width"),
}


def set_statistics(model, x):
    """Those of the images, so that outputs depend on them."""
    model.train()
    with torch.no_grad():
        for _ in range(20):
            model(x)
    return model.eval()


def losses_of_pytorch(model, x, y):
    """In double precision."""
    model = copy.deepcopy(model).double().train()
    x, y = torch.tensor(x).double(), torch.tensor(y).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, eps=EPS, weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def check(name, lines, make, folder):
    torch.manual_seed(1)
    draw = np.random.RandomState(1)
    x = draw.standard_normal((STEPS * BATCH, 3, SIZE, SIZE)).astype(np.float32)
    y = draw.standard_normal((STEPS * BATCH, CLASSES)).astype(np.float32)
    model, weights = set_statistics(make(), torch.tensor(x[:2 * BATCH])), folder / f"{name}.pth"
    torch.save(model.state_dict(), weights)
    run = published.Run(folder, name, lines, weights, x, y, STEPS, BATCH, RATE, EPS)
    with torch.no_grad():
        want = model.double()(torch.tensor(x).double()).numpy()
    model.float()
    published.compare(name, "outputs", run.outputs(), want, 1e-5)
    published.compare(name, "losses of 20 steps", run.losses(), losses_of_pytorch(model, x, y), 1e-4)
    published.check_export(name, model, run.exported())


def check_refused(name, lines, key, folder):
    config = folder / "refused.ini"
    config.write_text("\n".join(["[data]", "path = none.h5", "[model]", *lines, ""]))
    message = published.run(environment.BIN / "charl-train", "--print-config", config, code=2)
    if f"[model] {key}: " not in message:
        sys.exit(f"{name}: {message}")


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        for name, (lines, make) in FAMILIES.items():
            if len(sys.argv) == 1 or name in sys.argv[1:]:
                check(name, lines, make, pathlib.Path(folder))
        for name, (lines, key) in REFUSED.items():
            check_refused(name, lines, key, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
