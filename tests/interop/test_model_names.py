#!/usr/bin/python3
"""The modules that charl's models are compared with (test_pytorch_images.py, vit_module.py) are torchvision's ResNets and timm's vision
transformers: the same names and shapes, and outputs and gradients from the same weights. `charl model show` counts the parameters that
those libraries' own models have at their usual sizes. If it failed, published weights would not fit.

torchvision and timm come from PyPI, beside the distribution's PyTorch; exit code 77 means that they are missing.
CHARL_TEST_LONG=1: outputs and gradients of every depth, and large vision transformers.
"""
import contextlib
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

from pages import count, page, report_count
from test_pytorch_images import ResNetModule
from vit_module import VitModule

MODELS = {"resnext50_32x4d": ["type = resnet", "depth = 50", "groups = 32", "group_width = 4"],
          "wide_resnet50_2": ["type = resnet", "depth = 50", "group_width = 128"],
          "resnet50d": ["type = resnet", "depth = 50", "stem = deep", "pool_shortcut = yes"],
          "mobilenetv2_140": ["type = mobilenet", "width = 1.4"],
          "mobilenetv3_large_100": ["type = mobilenet", "variant = v3_large", "family = timm"],
          "efficientnet_b2": ["type = efficientnet", "variant = b2", "family = timm"],
          "tf_efficientnet_lite4": ["type = efficientnet", "variant = lite4", "family = timm_tf"],
          "deit_small_patch16_224": ["type = vit", "n_head = 6", "n_embd = 384"],
          "convnext_tiny": ["type = convnext"]}
LONG = os.environ.get("CHARL_TEST_LONG") == "1"
VITS = [("vit_tiny_patch16_224", 192, 3, 12), ("vit_small_patch16_224", 384, 6, 12)]
if LONG:
    VITS += [("vit_base_patch16_224", 768, 12, 12), ("vit_large_patch16_224", 1024, 16, 24)]


def results(model, x, y):
    """The outputs, and the gradients of the loss by name."""
    model.zero_grad()
    outputs = model(x)
    torch.nn.functional.cross_entropy(outputs, y).backward()
    return outputs.detach(), {name: p.grad for name, p in model.named_parameters()}


def compare(name, ours, theirs, x, renamed=lambda arrays: arrays):
    """Whether `ours` with the weights of `theirs` does the same in double precision; renamed: their arrays by our names."""
    y = torch.arange(len(x)) % 3
    ours, theirs, x = ours.double(), theirs.double(), x.double()
    ours.load_state_dict(renamed(theirs.state_dict()), strict=True)
    (got, gradients), (want, wanted) = results(ours, x, y), results(theirs, x, y)
    wanted = renamed(wanted)
    worst = float((got - want).abs().max())
    for key, gradient in gradients.items():
        worst = max(worst, float((gradient - wanted[key]).norm() / (1e-6 + wanted[key].norm())))
    same_state = all(torch.allclose(v, renamed(theirs.state_dict())[k]) for k, v in ours.state_dict().items())
    print(f"{name}: outputs and gradients deviate by {worst:.1e}")
    return int(not (worst < 1e-6 and same_state))


def as_rows(arrays):
    """timm's names and shapes to charl's: the class token and the positions are rows."""
    rows = {"cls_token": lambda v: v[0, 0], "pos_embed": lambda v: v[0]}
    return {f"{k}.weight" if k in rows else k: rows[k](v) if k in rows else v for k, v in arrays.items()}


@contextlib.contextmanager
def uninitialised():
    """Weights of no value: random ones take most of the time that making a model takes."""
    made = {name: getattr(torch.nn.init, name) for name in ("kaiming_normal_", "kaiming_uniform_", "uniform_")}
    for name in made:
        setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
    try:
        yield
    finally:
        for name, function in made.items():
            setattr(torch.nn.init, name, function)


def check_resnets(folder):
    failures = 0
    for depth in (18, 34, 50, 101, 152):
        whole = LONG or depth in (18, 50)
        with contextlib.nullcontext() if whole else uninitialised():
            theirs = getattr(torchvision.models, f"resnet{depth}")()
        with uninitialised():
            ours = ResNetModule(depth, 64, False, 3, 1000)
        ours.load_state_dict(theirs.state_dict(), strict=True)
        if whole:
            failures += compare(f"resnet {depth}", ours, theirs, torch.randn(2, 3, 40, 40))
        failures += report_count(f"resnet {depth}", count(folder, ["type = resnet", f"depth = {depth}"], "--input", "3x224x224",
                                                          "--outputs", 1000), sum(p.numel() for p in theirs.parameters()))
    for name, lines in MODELS.items():
        with uninitialised():
            theirs = timm.create_model(name)
        failures += report_count(name, count(folder, lines, "--input", "3x224x224", "--outputs", 1000),
                                 sum(p.numel() for p in theirs.parameters()))
    return failures


def check_vits(folder):
    theirs = timm.models.vision_transformer.VisionTransformer(img_size=28, patch_size=4, in_chans=1, num_classes=10, embed_dim=32, depth=2,
                                                              num_heads=4)
    failures = compare("vit", VitModule(1, 10, 32, 2, 4), theirs, torch.randn(3, 1, 28, 28), as_rows)
    for name, width, heads, depth in VITS:
        lines = page("vit", f"layer patch_embed.proj.channels={width}", "layer patch_embed.proj.kernel=16",
                     "layer patch_embed.proj.stride=16", f"layer patches.shape={width}, -1", "layer pos_embed.block_size=197",
                     f"layer blocks.width={width}", f"layer blocks.heads={heads}", f"layer blocks.repeat={depth}", "layer head.out=1000")
        failures += report_count(name, count(folder, lines, "--input", "3x224x224", "--outputs", 1000),
                                 sum(p.numel() for p in timm.create_model(name).parameters()))
    return failures


def main():
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory(prefix="charl-models-") as folder:
        failures = check_resnets(pathlib.Path(folder)) + check_vits(pathlib.Path(folder))
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
