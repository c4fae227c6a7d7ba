#!/usr/bin/python3
"""A tiny vision transformer of Hugging Face transformers: charl reads its folder, outputs and the losses of 20 steps of AdamW are PyTorch's, and the
folder that charl exports is loaded strictly. Settings of config.json that charl does not have are refused by name."""
import json
import pathlib
import sys
import tempfile

import environment

environment.enter("transformers")

# pylint: disable=wrong-import-position
import torch
import transformers

import published

SETTINGS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": published.SIZE,
            "patch_size": 16, "num_labels": published.CLASSES, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
            "initializer_range": 0.2, "layer_norm_eps": 1e-5}
REFUSED = [("hidden_act", "silu"), ("qkv_bias", False), ("num_channels", 4)]


def main():
    torch.manual_seed(1)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**SETTINGS))
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        run = published.check("vit", None, model, folder, model.save_pretrained)
        out = folder / "exported"
        published.run(environment.BIN / "charl", "checkpoint", "export", run.checkpoint, "--layout", "huggingface", "-o", out)
        back, info = transformers.ViTForImageClassification.from_pretrained(out, output_loading_info=True)
        if any(info.values()):
            sys.exit(f"what charl exports does not fit: {info}")
        for name, value in back.state_dict().items():
            if not torch.equal(value, model.state_dict()[name]):
                sys.exit(f"{name} came back changed")
        wrong = folder / "wrong"
        wrong.mkdir()
        config = json.loads((folder / "vit" / "config.json").read_text())
        for key, value in REFUSED:
            (wrong / "config.json").write_text(json.dumps({**config, key: value}))
            (folder / "refused.ini").write_text(f"[data]\npath = none.h5\n[model]\nfrom = {wrong}\n")
            message = published.run(environment.BIN / "charl-train", "--print-config", folder / "refused.ini", code=2)
            if f"{key} = " not in message or "is not supported" not in message:
                sys.exit(f"{key}: {message}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
