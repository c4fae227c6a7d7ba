#!/usr/bin/python3
"""Models of Hugging Face transformers come to charl and go back: GPT-2, Llama with grouped heads, and Qwen2 with biases of
queries, keys and values. Logits agree with PyTorch's to 1e-5 of the largest; what charl exports loads strictly.

transformers comes from PyPI, beside the distribution's PyTorch; exit code 77 means that either is missing.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import environment

if importlib.util.find_spec("torch") is None:
    print("skipped: no PyTorch")
    sys.exit(77)
environment.enter("transformers")

# pylint: disable=wrong-import-position
import json

import numpy as np
import torch
import transformers

BIN = environment.BIN
TUNE = pathlib.Path(__file__).parents[2] / "launch" / "gpt2-finetune.ini"
LOGITS = BIN.parent.parent / "tests" / "interop" / "gpt_logits"
TOKENS = BIN.parent.parent / "tests" / "interop" / "text_tokens"
BATCH, WINDOW, VOCAB = 2, 24, 96
COMMON = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 72, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": WINDOW}
MODELS = {
    "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=WINDOW, n_embd=32, n_layer=2, n_head=4)),
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(
        **COMMON, rope_theta=500000.0, rms_norm_eps=1e-6)),
    "qwen2": (transformers.Qwen2ForCausalLM, transformers.Qwen2Config(
        **COMMON, tie_word_embeddings=True)),
}


def run(code, *command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=1500, check=False, **options)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n"
                 f"{done.stderr.decode()}")
    return done


def make(name, folder):
    """A model whose every weight and bias is random, in shards."""
    kind, config = MODELS[name]
    torch.manual_seed(len(name))
    model = kind(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.2 + (1 if p.dim() == 1 else 0))
    model.save_pretrained(folder, safe_serialization=True, max_shard_size="20KB")
    return model


def compare(name, model, path, tokens, *more):
    with torch.no_grad():
        want = model(torch.tensor(tokens.astype(np.int64))).logits.numpy()
    done = run(0, LOGITS, path, BATCH, WINDOW, *more, input=tokens.tobytes())
    got = np.frombuffer(done.stdout, dtype=np.float32).reshape(want.shape)
    error = np.abs(got - want).max() / np.abs(want).max()
    print(f"{name}: {path.name}: logits differ by {error:.1e} of the largest")
    if not error < 1e-5:
        sys.exit(f"{name}: {path}: logits differ by {error}")


def check(name, folder):
    theirs, checkpoint, ours = folder / name, folder / f"{name}.h5", folder / f"{name}-out"
    tokens = np.random.RandomState(3).randint(0, VOCAB, (BATCH, WINDOW)).astype(np.int32)
    model = make(name, theirs)
    if not (theirs / "model.safetensors.index.json").exists():
        sys.exit(f"{name}: not in shards")
    compare(name, model, theirs, tokens, checkpoint)
    for options in ([], ["--shard-size", 20000]):
        out = ours.with_name(ours.name + str(len(options)))
        run(0, BIN / "charl", "checkpoint", "export", checkpoint, "--layout", "huggingface", "-o", out, *options)
        if (out / "model.safetensors").exists() == bool(options):
            sys.exit(f"{out}: --shard-size made no shards")
        loaded, info = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
        if type(loaded) is not type(model) or any(info.values()):
            sys.exit(f"{name}: what charl exports loads as {type(loaded).__name__}: {info}")
        compare(name, loaded.eval(), theirs, tokens)
        for key, value in model.state_dict().items():
            if not torch.equal(loaded.state_dict()[key], value):
                sys.exit(f"{name}: {key} came back changed")
    compare(name, model, ours.with_name(ours.name + "2"), tokens)


def characters():
    """GPT-2's 256 characters for the bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in shown]
    return [chr(b) for b in shown] + [chr(256 + i) for i in range(len(rest))]


def check_tokenizer(folder):
    """A folder with its tokenizer and a text are all that a fine-tuning needs; data of another tokenizer are refused."""
    theirs, text = folder / "tuned", folder / "text.txt"
    config = transformers.GPT2Config(vocab_size=256, n_positions=WINDOW, n_embd=32, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(theirs, safe_serialization=True)
    (theirs / "vocab.json").write_text(json.dumps({c: i for i, c in enumerate(characters())}))
    (theirs / "merges.txt").write_text("#version: 0.2\n")
    text.write_text("It was the best of times, it was the worst of times. " * 20)
    settings = [f"model.from={theirs}", f"init.from={theirs}", "model.block_size=8"]
    for name, tokenizer, code in (("good", theirs, 0), ("bytes", "bytes", 3)):
        data = folder / f"{name}.h5"
        run(0, BIN / "charl", "data", "import", "text", text, "--tokenizer", tokenizer, "--val-split", 0.2, "-o", data)
        done = run(code, BIN / "charl-train", "-q", TUNE, "-o", folder / f"run-{name}", f"data.path={data}", *settings,
                   "train.max_steps=2", "train.batch_size=8", "device.share=yes")
    if b"bytes.h5 has another tokenizer than" not in done.stderr or b"--tokenizer" not in done.stderr:
        sys.exit(f"another tokenizer: {done.stderr.decode()}")
    done = run(0, BIN / "charl", "generate", TUNE, folder / "run-good" / "best.h5", "--tokens", 5, "--prompt", "It was",
               *settings)
    if not done.stdout.startswith(b"It was"):
        sys.exit(f"generated {done.stdout}")
    compare_tokens(folder, "good", text.read_text())


def compare_tokens(folder, name, text):
    """The tokenizer that is exported with a model: AutoTokenizer gives the tokens of the data set, and the text back."""
    out = folder / f"exported-{name}"
    run(0, BIN / "charl", "checkpoint", "export", folder / f"run-{name}" / "best.h5", "--layout", "huggingface", "-o", out)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    got = tokenizer(text, add_special_tokens=False).input_ids
    done = run(0, TOKENS, folder / f"{name}.h5", "no", folder / "text.txt", folder / "back.txt")
    want = np.frombuffer(done.stdout, dtype=np.int32).tolist()
    if got != want or tokenizer.decode(got) != text:
        sys.exit(f"{name}: AutoTokenizer gives {len(got)} tokens {got[:12]}, charl {len(want)}: {want[:12]}")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(out)
    if loaded.config.vocab_size < max(got) + 1 or tokenizer.model_max_length != loaded.config.max_position_embeddings:
        sys.exit(f"{name}: {loaded.config} and a window of {tokenizer.model_max_length}")
    check_inputs(name, out, tokenizer, loaded, text)
    print(f"{name}: {len(got)} tokens by AutoTokenizer")


def check_inputs(name, out, tokenizer, model, text):
    """What the tokenizer gives is what the model takes: model(**tokenizer(text)) is right. CHARL_TEST_LONG: with transformers 5, too."""
    inputs = tokenizer(text, return_tensors="pt", truncation=True)
    with torch.no_grad():
        same = torch.equal(model(**inputs).logits, model(inputs.input_ids).logits)
    if not same or sorted(inputs) != ["attention_mask", "input_ids"]:
        sys.exit(f"{name}: the tokenizer gives {sorted(inputs)}, and the logits are {'the same' if same else 'others'}")
    if os.environ.get("CHARL_TEST_LONG"):
        python = environment.prepare("transformers5", **environment.ENVIRONMENTS["transformers5"])
        code = "import sys, transformers as t; print(sorted(t.AutoTokenizer.from_pretrained(sys.argv[1])('It was')))"
        done = run(0, python, "-c", code, out)
        if done.stdout.decode().strip() != "['attention_mask', 'input_ids']":
            sys.exit(f"{name}: transformers 5 gives {done.stdout}")


def check_learnt_tokenizers(folder):
    """Tokenizers that charl makes for a text go out with the model, too."""
    config = folder / "small.ini"
    config.write_text("[model]\ntype = gpt\nn_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 8\n[train]\nmax_steps = 2\nbatch_size = 8\n"
                      "[device]\nshare = yes\n")
    for name, more in (("bytes", []), ("chars", []), ("bpe", ["--vocab", 280])):
        data = folder / f"{name}.h5"
        run(0, BIN / "charl", "data", "import", "text", folder / "text.txt", "--tokenizer", name, *more, "--val-split", 0.2, "-o", data,
            "--overwrite")
        run(0, BIN / "charl-train", "-q", config, "-o", folder / f"run-{name}", f"data.path={data}")
        compare_tokens(folder, name, (folder / "text.txt").read_text())


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        for name in MODELS:
            check(name, pathlib.Path(folder))
        check_tokenizer(pathlib.Path(folder))
        check_learnt_tokenizers(pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
