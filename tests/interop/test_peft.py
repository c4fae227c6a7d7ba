#!/usr/bin/python3
"""Fine-tuning gives the losses of PyTorch: of the whole model, frozen below the last block, and by low-rank adapters as PEFT has them.
Adapters go to PEFT and give the same logits there, alone and merged; those of PEFT give the same logits in charl.

A model learns one half of a text, and goes on with the other half. PyTorch, transformers and PEFT start from what charl exports, take the same
windows in the same order, and must have the same loss in each of 20 steps to 1e-4. peft comes from PyPI, beside the distribution's
PyTorch; exit code 77 means that either is missing.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import environment

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("h5py") is None:
    print("skipped: no PyTorch or no h5py")
    sys.exit(77)
environment.enter("transformers")

# pylint: disable=wrong-import-position
import h5py
import numpy as np
import peft
import torch
import transformers

BIN = environment.BIN
DATA = os.environ.pop("CHARL_TEST_DATA", None)  # charl warns of variables that it does not know
LAYERS, HEADS, WIDTH, WINDOW, BATCH, STEPS = 2, 4, 64, 32, 8, 20
LR = 3e-3
TRAIN = ["lora.rank=8", "lora.alpha=16", "lora.targets=*.attn.*, *.mlp.*"]
LLAMA = ["model.norm=rms", "model.mlp=swiglu", "model.positions=rotary", "model.n_kv_head=2", "model.bias=no", "model.tie_weights=no"]
# Rows of queries, keys and values, and so of adapters, have another order there.
NEOX = ["model.family=gpt_neox", "model.positions=rotary", "model.rotary_share=0.25", "model.parallel=yes", "model.mlp=gelu", "model.bias=no",
        *(f"model.{part}_bias=yes" for part in ("norm", "qkv", "out", "mlp")), "model.tie_weights=no"]
CONFIG = f"""[run]
seed = 4
[data]
shuffle = no
[model]
type = gpt
n_layer = {LAYERS}
n_head = {HEADS}
n_embd = {WIDTH}
block_size = {WINDOW}
mlp = gelu_tanh
bias = yes
[train]
batch_size = {BATCH}
max_steps = {STEPS}
[optimizer]
learning_rate = {LR}
weight_decay = 0
[eval]
interval = 0
[checkpoint]
interval = 0
[log]
interval = 1
[device]
share = yes
"""


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=1500, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")


def train(folder, name, *settings):
    """The losses of charl's steps."""
    run(BIN / "charl-train", folder / "gpt.ini", "-q", "-o", folder / name, *settings)
    rows = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if row["event"] == "train"]


def export(folder, name, layout, out):
    run(BIN / "charl", "checkpoint", "export", folder / name / "last.h5", "--layout", layout, "-o", folder / out)
    return folder / out


def windows(path):
    with h5py.File(path, "r") as f:
        tokens = torch.tensor(f["train/tokens"][...].astype("int64"))
    rows = (len(tokens) - 1) // WINDOW
    return tokens[: rows * WINDOW].view(rows, WINDOW), tokens[1: rows * WINDOW + 1].view(rows, WINDOW)


def repeat(model, path, lr=LR):
    """PyTorch's losses."""
    x, y = windows(path)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr, betas=(0.9, 0.999), eps=1e-8,
                                  weight_decay=0)
    losses = []
    model.train()
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        logits = model(x[rows]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y[rows].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(name, ours, theirs, untrained):
    gap = max(abs(a - b) for a, b in zip(ours, theirs))
    print(f"{name}: mean loss {sum(ours) / STEPS:.4f}, untrained {sum(untrained) / STEPS:.4f}; PyTorch's losses at most {gap:.1e} apart")
    if len(ours) != STEPS or not gap < 1e-4 or not sum(ours) < sum(untrained):
        sys.exit(f"{name}: {ours}\n{theirs}")


def causal(path):
    settings = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0} if "gpt2" in str(path) else {}
    return transformers.AutoModelForCausalLM.from_pretrained(path, **settings)


def same_logits(name, a, b, x):
    with torch.no_grad():
        a, b = a.eval()(x).logits, b.eval()(x).logits
    error = ((a - b).abs().max() / b.abs().max()).item()
    print(f"{name}: logits differ by {error:.1e} of the largest")
    if not error < 1e-5:
        sys.exit(f"{name}: logits differ by {error}")


def check_adapters(folder, kind, data, base, *settings):
    """Adapters of 20 steps, from charl's initial ones."""
    more = [f"data.path={data}", f"init.from={base}", *settings, *TRAIN]
    train(folder, f"{kind}-start", *more, "train.max_steps=1", "optimizer.learning_rate=1e-30")
    ours = train(folder, f"{kind}-lora", *more)
    model = peft.PeftModel.from_pretrained(causal(base), export(folder, f"{kind}-start", "peft", f"{kind}-adapters"),
                                           is_trainable=True)
    if kind != "llama":  # in a Llama each of queries, keys and values has its own A in PEFT, and learns another way
        compare(f"{kind} LoRA", ours, repeat(model, data), repeat(causal(base), data, 0))
    theirs = peft.PeftModel.from_pretrained(causal(base), export(folder, f"{kind}-lora", "peft", f"{kind}-trained"))
    merged = causal(export(folder, f"{kind}-lora", "huggingface", f"{kind}-merged"))
    x, _ = windows(data)
    same_logits(f"{kind}: adapters merged by charl", merged, theirs, x[:4])
    same_logits(f"{kind}: adapters merged by PEFT", theirs.merge_and_unload(), merged, x[:4])


def check_adapters_in(folder, kind, data, base, *settings):
    """Adapters of PEFT with every setting that charl reads, random: charl adds them to their base as PEFT does."""
    torch.manual_seed(5)
    names = {"gpt2": (["c_attn", "c_fc"], "ln_f", "c_attn"), "llama": (["q_proj", "v_proj", "down_proj", "embed_tokens"], "lm_head", "down_proj")}
    targets, saved, other = names[kind]
    model = peft.get_peft_model(causal(base), peft.LoraConfig(
        r=4, lora_alpha=6, use_rslora=True, target_modules=targets, modules_to_save=[saved], fan_in_fan_out=kind == "gpt2",
        rank_pattern={other: 3}, alpha_pattern={other: 5.5}))
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder / f"{kind}-in")
    x, _ = windows(data)
    train(folder, f"{kind}-from", f"data.path={data}", f"init.from={folder / (kind + '-in')}", *settings, "train.max_steps=1",
          "optimizer.learning_rate=1e-30")
    same_logits(f"{kind}: adapters of PEFT in charl", causal(export(folder, f"{kind}-from", "huggingface", f"{kind}-from-out")), model, x[:4])
    with torch.no_grad():
        moved = (causal(base)(x[:4]).logits - model(x[:4]).logits).abs().max().item()
    if not moved > 0.1:
        sys.exit(f"{kind}: the adapters move the logits by {moved}")


def halves():
    if DATA and (pathlib.Path(DATA) / "tinyshakespeare.txt").exists():
        text = (pathlib.Path(DATA) / "tinyshakespeare.txt").read_bytes()
        return text[: len(text) // 2], text[len(text) // 2:]
    draw = np.random.RandomState(5)
    words = ["".join(draw.choice(list("abcdefgh"), draw.randint(1, 7))) for _ in range(80)]
    return tuple(" ".join(draw.choice(words[40 * i: 40 * i + 60], 3000)).encode() for i in range(2))


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        (folder / "gpt.ini").write_text(CONFIG)
        for i, text in enumerate(halves()):
            (folder / f"half{i}.txt").write_bytes(text)
            run(BIN / "charl", "data", "import", "text", folder / f"half{i}.txt", "--tokenizer", "bytes", "-o", folder / f"half{i}.h5")
        data = folder / "half1.h5"
        for kind, settings in (("gpt2", []), ("llama", LLAMA), ("gpt_neox", NEOX)):
            train(folder, f"{kind}-first", f"data.path={folder / 'half0.h5'}", *settings)
            base = export(folder, f"{kind}-first", "huggingface", f"{kind}-base")
            check_adapters(folder, kind, data, base, *settings)
            if kind != "gpt_neox":
                check_adapters_in(folder, kind, data, base, *settings)
        more, base = [f"data.path={data}", f"init.from={folder / 'gpt2-base'}"], folder / "gpt2-base"
        untrained = repeat(causal(base), data, 0)
        compare("gpt2, all of it", train(folder, "full", *more), repeat(causal(base), data), untrained)
        model = causal(base)
        for name, p in model.named_parameters():
            p.requires_grad = f"h.{LAYERS - 1}." in name or "ln_f" in name
        compare("gpt2, frozen below the last block",
                train(folder, "frozen", *more, f"train.freeze=*, !h.{LAYERS - 1}.*, !ln_f.*"), repeat(model, data), untrained)
    return 0


if __name__ == "__main__":
    sys.exit(main())
