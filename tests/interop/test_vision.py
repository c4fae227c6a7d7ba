#!/usr/bin/python3
"""Models of images, as torchvision and timm name them: charl reads a narrow one of each family from PyTorch's file, its outputs and the losses of
20 steps of AdamW are PyTorch's, and PyTorch strictly loads what charl exports. Settings that a family does not have are refused by name.

torchvision and timm come from PyPI, beside the distribution's PyTorch; exit code 77 means that they are missing.
    test_vision.py                      a few of them
    CHARL_TEST_LONG=1 test_vision.py    all, some as wide as published ones
    test_vision.py NAME ...             only these
"""
import importlib.util
import os
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
import torch

warnings.filterwarnings("ignore")
import timm
import torchvision

import published

CLASSES, SIZE = published.CLASSES, published.SIZE


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


def drawn(model):
    """All its weights, some of which start at 0."""
    for p in model.parameters():
        torch.nn.init.normal_(p, 0.5 if p.ndim == 1 else 0.0, 0.1)
    return model


def moderate(model):
    """Norms before a relu6 whose results are mostly between its kinks: from elsewhere rounding alone changes the losses of PyTorch by 1e-2 within
    20 steps, and no comparison means anything."""
    modules = list(model.modules())
    for norm, after in zip(modules, modules[1:]):
        if isinstance(norm, torch.nn.BatchNorm2d) and isinstance(getattr(norm, "act", after), torch.nn.ReLU6):
            torch.nn.init.constant_(norm.weight, 0.5)
            torch.nn.init.uniform_(norm.bias, 1, 5)  # by 5, some values are above 6
    return model


def vit_of_torchvision():
    return drawn(torchvision.models.VisionTransformer(SIZE, 16, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=48, num_classes=CLASSES))


def convnext_of_torchvision():
    widths = [8, 12, 16, 24, None]
    settings = [torchvision.models.convnext.CNBlockConfig(widths[i], widths[i + 1], 2 if i == 2 else 1) for i in range(4)]
    return drawn(torchvision.models.ConvNeXt(settings, num_classes=CLASSES))


VIT = ["type = vit", f"image_size = {SIZE}", "patch_size = 16", "n_layer = 2", "n_head = 4", "n_embd = 32", "hidden = 48"]
CONVNEXT = ["type = convnext", "widths = 8, 12, 16, 24", "depths = 1, 1, 2, 1"]
BASIC, BOTTLENECK = torchvision.models.resnet.BasicBlock, torchvision.models.resnet.Bottleneck
# Lines of [model], and the model.
FAMILIES = {
    "resnet18d of timm": (["type = resnet", "depth = 18", "width = 8", "stem = deep", "pool_shortcut = yes"],
                          lambda: resnet_of_timm(block=timm.models.resnet.BasicBlock, layers=[2, 2, 2, 2])),
    "mobilenet v3 small": (["type = mobilenet", "variant = v3_small", "width = 0.25", "dropout = 0"],
                           lambda: torchvision.models.mobilenet_v3_small(width_mult=0.25, dropout=0, num_classes=CLASSES)),
    "vit": ([*VIT, "family = torchvision"], vit_of_torchvision),
    "vit of timm": (VIT, lambda: drawn(timm.models.vision_transformer.VisionTransformer(
        img_size=SIZE, patch_size=16, embed_dim=32, depth=2, num_heads=4, mlp_ratio=1.5, num_classes=CLASSES))),
    "convnext": ([*CONVNEXT, "family = torchvision"], convnext_of_torchvision),
    "convnext of timm": (CONVNEXT, lambda: drawn(timm.models.convnext.ConvNeXt(dims=(8, 12, 16, 24), depths=(1, 1, 2, 1), num_classes=CLASSES))),
}
LONG = {
    "resnet18": (["type = resnet", "depth = 18", "width = 8"], resnet(BASIC, [2, 2, 2, 2])),
    "resnext50": (["type = resnet", "depth = 50", "width = 8", "groups = 2", "group_width = 32"],
                  resnet(BOTTLENECK, [3, 4, 6, 3], groups=2, width_per_group=32)),
    "mobilenet v2": (["type = mobilenet", "width = 0.25", "dropout = 0"],
                     lambda: moderate(torchvision.models.mobilenet_v2(width_mult=0.25, dropout=0, num_classes=CLASSES))),
    "mobilenet v3 large": (["type = mobilenet", "variant = v3_large", "width = 0.25", "dropout = 0"],
                           lambda: torchvision.models.mobilenet_v3_large(width_mult=0.25, dropout=0, num_classes=CLASSES)),
    "mobilenet v2 of timm": (["type = mobilenet", "width = 0.5", "dropout = 0", "family = timm"],
                             lambda: moderate(timm.create_model("mobilenetv2_050", num_classes=CLASSES))),
    "mobilenet v3 small of timm": (["type = mobilenet", "variant = v3_small", "dropout = 0", "family = timm"],
                                   lambda: timm.create_model("mobilenetv3_small_100", num_classes=CLASSES)),
    "mobilenet v3 large of timm": (["type = mobilenet", "variant = v3_large", "dropout = 0", "family = timm"],
                                   lambda: timm.create_model("mobilenetv3_large_100", num_classes=CLASSES)),
    "efficientnet b0 of torchvision": (["type = efficientnet", "dropout = 0", "family = torchvision"],
                                       lambda: torchvision.models.efficientnet_b0(dropout=0, stochastic_depth_prob=0, num_classes=CLASSES)),
    "efficientnet b1 of timm": (["type = efficientnet", "variant = b1", "dropout = 0", "family = timm"],
                                lambda: timm.create_model("efficientnet_b1", num_classes=CLASSES)),
    "efficientnet b0 of timm, padded as in TensorFlow": (["type = efficientnet", "dropout = 0", "family = timm_tf"],
                                                         lambda: timm.create_model("tf_efficientnet_b0", num_classes=CLASSES)),
}
REFUSED = {
    "groups of basic blocks": (["type = resnet", "depth = 34", "groups = 32"], "groups"),
    "width of basic blocks": (["type = resnet", "depth = 18", "group_width = 128"], "group_width"),
    "lite of torchvision": (["type = efficientnet", "variant = lite0", "family = torchvision"], "family"),
    "patches that do not fit": (["type = vit", "patch_size = 15"], "image_size"),
    "heads that do not fit": (["type = vit", "n_head = 7"], "n_embd"),
    "three stages": (["type = convnext", "depths = 3, 3, 3"], "depths"),
    "narrow v3 of timm": (["type = mobilenet", "variant = v3_small", "family = timm", "width = 0.75"], "width"),
}


def check_refused(name, lines, key, folder):
    config = folder / "refused.ini"
    config.write_text("\n".join(["[data]", "path = none.h5", "[model]", *lines, ""]))
    message = published.run(environment.BIN / "charl-train", "--print-config", config, code=2)
    if f"[model] {key}: " not in message:
        sys.exit(f"{name}: {message}")


def check_other_size(folder):
    """The images of the data are not those of the model."""
    config = folder / "size.ini"
    published.run(environment.BIN / "charl", "data", "make", "digits", folder / "digits.h5", "--train", 16, "--val", 8)
    config.write_text(f"[run]\noutput_dir = {folder}/size\n[data]\npath = {folder}/digits.h5\n[model]\ntype = vit\n[train]\nbatch_size = 8\n")
    message = published.run(environment.BIN / "charl-train", config, code=2)
    if "model.image_size = 224, but the images of " not in message or "are 28 x 28" not in message:
        sys.exit(f"other size: {message}")


def check_old_vit(folder):
    """Names of the files that torchvision publishes, which it renames as it loads them."""
    model = vit_of_torchvision()

    def save(path):
        torch.save({k.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): v for k, v in model.state_dict().items()}, path)

    run = published.check("old vit.pth", [*VIT, "family = torchvision"], model, folder, save)
    published.check_export("old vit", model, run.exported())


def main():
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        for name, (lines, make) in {**FAMILIES, **LONG}.items():
            if name in sys.argv[1:] or len(sys.argv) == 1 and (name in FAMILIES or os.environ.get("CHARL_TEST_LONG") == "1"):
                # 50 layers with batch norms amplify roundings; of PyTorch's own, in one, to 1e-3
                bound = 1e-4 if name in LONG and not name.startswith("mobilenet v2") else 1e-5
                bound = None if name == "mobilenet v3 large of timm" else bound
                published.check(name, lines, make(), pathlib.Path(folder), bound=bound)
        if len(sys.argv) == 1:
            check_old_vit(pathlib.Path(folder))
            check_other_size(pathlib.Path(folder))
        for name, (lines, key) in REFUSED.items():
            check_refused(name, lines, key, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
