#!/usr/bin/python3
"""Language models as GGUF: the package gguf reads what charl exports, f32, f16 and q8_0, and llama.cpp continues a text as `charl generate` does, with
the tokenizer in the file: bytes, byte pairs learnt by charl, Qwen's pattern, and a model of SentencePiece.

The packages come from PyPI; exit code 77: they cannot be had.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import environment

environment.enter("gguf")

# pylint: disable=wrong-import-position
import gguf
import numpy as np
import sentencepiece
import xllamacpp

BIN = environment.BIN
CONFIG = """[data]
path = data.h5
[model]
type = gpt
n_layer = 2
n_head = 4
n_embd = 64
block_size = 64
{model}
[train]
max_steps = 24
batch_size = 16
[optimizer]
type = adamw
learning_rate = 3e-3
[device]
share = yes
"""
GPT2 = "norm = layer\nmlp = gelu_tanh\nbias = yes"
LLAMA = "norm = rms\nmlp = swiglu\npositions = rotary\nbias = no\ntie_weights = no\nn_kv_head = 2\nrope_theta = 50000\n"
CASES = {  # settings of the model, tokenizer, architecture
    "gpt2": (GPT2, ["bpe", "--vocab", "300"], "gpt2"),
    "llama": (LLAMA + "rope_scaling = llama3\nrope_factor = 4\nrope_low = 1\nrope_high = 4\nrope_original = 16",
              ["pieces/tokenizer.model"], "llama"),
    "qwen3": (LLAMA + "head_dim = 32\nqk_norm = head", ["qwen"], "qwen3"),
}
if os.environ.get("CHARL_TEST_LONG"):
    CASES["qwen2"] = (LLAMA + "qkv_bias = yes", ["bytes"], "qwen2")
PROMPT = "It was the"
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def run(code, folder, *command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=1500, check=False, cwd=folder)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n{done.stderr.decode()}")
    return done


def make_tokenizers(folder, text):
    """A model of SentencePiece with tokens of bytes, and byte-level BPE with Qwen's pattern and an added token."""
    (folder / "pieces").mkdir()
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "pieces" / "tokenizer"), vocab_size=330, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2, hard_vocab_limit=False)
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in shown]
    vocab = {c: i for i, c in enumerate([chr(b) for b in shown] + [chr(256 + i) for i in range(len(rest))])}
    merges = ["t h", "Ġ th", "Ġth e", "o f", "Ġ of", "m e", "i t"]
    for m in merges:
        vocab[m.replace(" ", "")] = len(vocab)
    (folder / "qwen").mkdir()
    (folder / "qwen" / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": len(vocab), "content": "<|endoftext|>", "special": True, "normalized": False}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}}))


def tensors(path):
    return {t.name: (t.tensor_type, t.data) for t in gguf.GGUFReader(path).tensors}


def check_types(name, folder, arch):
    """The same tensors in three types: f16 is rounded, q8_0 as the package gguf does it; vectors and positions stay f32."""
    for kind in ("f32", "f16", "q8_0"):
        out = run(0, folder, BIN / "charl", "checkpoint", "export", "runs/x/best.h5", "-o", f"x-{kind}.gguf")
        if b"bytes" not in out.stdout:
            sys.exit(f"{name}: the export says {out.stdout}")
    exact = tensors(folder / "x-f32.gguf")
    for kind, want in (("f16", gguf.GGMLQuantizationType.F16), ("q8_0", gguf.GGMLQuantizationType.Q8_0)):
        packed, n = tensors(folder / f"x-{kind}.gguf"), 0
        if list(packed) != list(exact):
            sys.exit(f"{name}: {kind} has {list(packed)}, f32 {list(exact)}")
        for key, (has, data) in packed.items():
            value = exact[key][1]
            flat = value.ndim == 1 or key.startswith("position_embd")
            expected = value if flat else gguf.quants.quantize(value, want)
            if has != (gguf.GGMLQuantizationType.F32 if flat else want) or not np.array_equal(data, expected):
                sys.exit(f"{name}: {key} of {kind} is {has.name}, or has other values")
            n += not flat
        if n < 9:
            sys.exit(f"{name}: {n} matrices of {kind}")
    fields = gguf.GGUFReader(folder / "x-f32.gguf").fields
    if fields["general.architecture"].contents() != arch or fields[f"{arch}.block_count"].contents() != 2:
        sys.exit(f"{name}: {fields['general.architecture'].contents()}")


def continued(path):
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = 64
    params.n_gpu_layers = 0
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.warmup = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    return server.handle_completions({"prompt": PROMPT, "max_tokens": 30, "temperature": 0, "top_k": 1, "repeat_penalty": 1.0,
                                      "cache_prompt": False})


def check(name, folder, text):
    model, tokenizer, arch = CASES[name]
    (folder / "x.ini").write_text(CONFIG.format(model=model))
    run(0, folder, BIN / "charl", "data", "import", "text", text, "--tokenizer", *tokenizer, "--val-split", "0.2", "-o", "data.h5", "--overwrite")
    run(0, folder, BIN / "charl-train", "-q", "x.ini", "-o", "runs/x", "--overwrite")
    check_types(name, folder, arch)
    mine = run(0, folder, BIN / "charl", "generate", "runs/x/best.h5", "--temperature", "0", "--tokens", "30", "--prompt", PROMPT,
               "--ignore-end").stdout.decode()
    answer = continued(folder / "x-f32.gguf")
    theirs = PROMPT + (answer["choices"][0]["text"] if "choices" in answer else answer["content"])
    if mine.rstrip("\n") != theirs.rstrip("\n"):
        sys.exit(f"{name}: charl writes {mine!r}, llama.cpp {theirs!r}")
    print(f"{name}: {theirs!r}")


def main():
    with tempfile.TemporaryDirectory() as where:
        folder = pathlib.Path(where)
        text = folder / "text.txt"
        text.write_text("".join(f"It was the {a} of times, it was the {b} of {c}, {n} of them.\n" for n, (a, b, c) in enumerate(
            [("best", "worst", "times"), ("age", "age", "wisdom"), ("season", "spring", "hope"), ("epoch", "winter", "despair")] * 40)))
        make_tokenizers(folder, text)
        for name in sys.argv[1:] or CASES:
            check(name, folder, text)


main()
