#!/usr/bin/python3
"""Every family of published language models, as Hugging Face transformers saves it: a tiny model of each is read, its logits are those that
PyTorch gave (families.json), and what charl exports has the same weights and settings.

    test_families.py                      with the recorded logits; needs numpy only
    CHARL_TEST_LONG=1 test_families.py    also with transformers itself, from PyPI with its PyTorch (several GB): logits, 20 steps of AdamW,
                                          strict loading of what charl exports
    test_families.py NAME ...             some of them
    test_families.py --record             writes families.json with the logits of transformers

Weights are random numbers of numpy's RandomState, whose sequence does not change between versions.
"""
import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import environment

LONG = "--record" in sys.argv or bool(os.environ.get("CHARL_TEST_LONG"))
if LONG:
    environment.enter("torch_transformers")
if importlib.util.find_spec("numpy") is None:
    print("skipped: no numpy")
    sys.exit(77)

# pylint: disable=wrong-import-position
import numpy as np

BIN = environment.BIN
LOGITS = BIN.parent.parent / "tests" / "interop" / "gpt_logits"
RECORDED = pathlib.Path(__file__).with_name("families.json")
BATCH, WINDOW, VOCAB, EVERY = 2, 24, 40, 61
COMMON = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": WINDOW}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 12}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 12, "beta_fast": 3.0, "beta_slow": 0.5}
FAMILIES = {
    "llama": {**COMMON, "rope_theta": 50.0, "rope_scaling": LLAMA3},
    "llama, biases": {**COMMON, "attention_bias": True, "mlp_bias": True, "head_dim": 12},
    "llama, yarn": {**COMMON, "rope_theta": 50.0, "rope_scaling": YARN},
    "llama, dynamic": {**COMMON, "rope_theta": 50.0, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "llama, geglu": {**COMMON, "hidden_act": "gelu", "tie_word_embeddings": True},
    "mistral": {**COMMON, "head_dim": 12, "sliding_window": None},
    "mistral, window": {**COMMON, "sliding_window": 7},
    "qwen2": {**COMMON, "tie_word_embeddings": True},
    "qwen3": {**COMMON, "head_dim": 12},
    "qwen3, yarn": {**COMMON, "head_dim": 12, "rope_scaling": {"rope_type": "yarn", "factor": 3.0, "attention_factor": 1.5}},
    "olmo2": COMMON,
    "phi3": {**COMMON, "pad_token_id": 0},
    "phi3, partly rotated": {**COMMON, "num_attention_heads": 2, "partial_rotary_factor": 0.75, "pad_token_id": 0},
    "phi3, window": {**COMMON, "pad_token_id": 0, "sliding_window": 9, "rope_scaling": None},
    "gemma": {**COMMON, "head_dim": 12},
    "gemma2": {**COMMON, "head_dim": 12, "query_pre_attn_scalar": 20, "sliding_window": 5, "attn_logit_softcapping": 2.0,
               "final_logit_softcapping": 3.0},
    "gemma3_text": {**COMMON, "num_hidden_layers": 3, "head_dim": 12, "sliding_window": 6, "rope_local_base_freq": 70.0,
                    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
                    "rope_scaling": {"rope_type": "linear", "factor": 3.0}},
    "smollm3": {**COMMON, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 1], "pad_token_id": 0},
    "stablelm": {**COMMON, "use_qkv_bias": True},
    "gpt_neox": {**COMMON, "num_key_value_heads": None},
    "gpt_neox, yarn": {**COMMON, "num_key_value_heads": None, "rotary_pct": 0.5, "rotary_emb_base": 20, "rope_scaling": YARN},
    "gpt_neox, one after the other": {**COMMON, "num_key_value_heads": None, "use_parallel_residual": False, "rotary_pct": 0.5,
                                      "hidden_act": "relu2"},
}

CHOSEN = [name for name in sys.argv[1:] if name in FAMILIES] or list(FAMILIES)


def run(code, *command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=1500, check=False, **options)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n{done.stderr.decode()}")
    return done


def random_weights(name, shapes):
    """{name: array}: norms around their neutral value."""
    draw = np.random.RandomState(len(name))
    base = {k: 0.0 if k.endswith("bias") or len(s) > 1 else 1.0 for k, s in shapes.items()}
    return {k: (draw.standard_normal(s) * 0.2 + base[k]).astype(np.float32) for k, s in sorted(shapes.items())}


def random_tokens():
    return np.random.RandomState(3).randint(0, VOCAB, (BATCH, WINDOW)).astype(np.int32)


def write_folder(folder, config, weights):
    header, at = {}, 0
    for name, value in weights.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in weights.values()))


def read_folder(folder):
    data = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {k: np.frombuffer(data[8 + size:], np.float32, offset=v["data_offsets"][0], count=int(np.prod(v["shape"]))).reshape(v["shape"])
            for k, v in header.items()}, json.loads((folder / "config.json").read_text())


def compare(name, what, got, want, tolerance=1e-5):
    error = np.abs(got - want).max() / np.abs(want).max()
    print(f"{name}: {what} differ by {error:.1e} of the largest")
    if not error < tolerance:
        sys.exit(f"{name}: {what} differ by {error}")


def check_export(name, folder, checkpoint, weights, config):
    """What comes back has the same weights, and a config.json with the same settings."""
    out = folder / f"{name}-out"
    run(0, BIN / "charl", "checkpoint", "export", checkpoint, "--layout", "huggingface", "-o", out)
    back, written = read_folder(out)
    if sorted(back) != sorted(weights):
        sys.exit(f"{name}: exported {sorted(set(back) ^ set(weights))}")
    for key, value in weights.items():
        # Gemma's norms are 1 less in the file: the sum is rounded.
        if not (np.allclose(back[key], value, 0, 1.2e-7) if name.startswith("gemma") and value.ndim == 1 else np.array_equal(back[key], value)):
            sys.exit(f"{name}: {key} came back changed")
    for key, value in written.items():
        if isinstance(value, dict) and isinstance(config.get(key), dict):
            value = {k: v for k, v in value.items() if k in config[key]}  # others have their defaults
        if key in config and config[key] is not None and value != config[key] and key not in ("bos_token_id", "eos_token_id", "pad_token_id"):
            sys.exit(f"{name}: {key} = {config[key]} came back as {value}")
    return out


def check(name, record, folder):
    shapes = {k: tuple(v) for k, v in record["shapes"].items()}
    weights, theirs, checkpoint = random_weights(name, shapes), folder / name, folder / f"{name}.h5"
    write_folder(theirs, record["config"], weights)
    if name == "stablelm":  # read in the layout of its names, as any model whose family is not given
        done = run(0, LOGITS, theirs, BATCH, WINDOW, checkpoint, "family = auto", input=random_tokens().tobytes())
        compare(name, "logits with family = auto", np.frombuffer(done.stdout, dtype=np.float32)[::EVERY], np.array(record["logits"], np.float32))
    done = run(0, LOGITS, theirs, BATCH, WINDOW, checkpoint, input=random_tokens().tobytes())
    got = np.frombuffer(done.stdout, dtype=np.float32)
    compare(name, "recorded logits", got[::EVERY], np.array(record["logits"], np.float32))
    if name == "mistral, window":
        done = run(2, BIN / "charl", "checkpoint", "export", checkpoint, "-o", folder / "x.gguf")
        if b"has no sliding window" not in done.stderr:
            sys.exit(f"{name}: {done.stderr.decode()}")
    return check_export(name, folder, checkpoint, weights, record["config"]), weights, got


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        if LONG:
            import families_torch # pylint: disable=import-outside-toplevel
            live = {name: families_torch.Live(name, settings) for name, settings in FAMILIES.items() if name in CHOSEN}
        if "--record" in sys.argv:
            RECORDED.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v.record())}" for k, v in live.items()) + "\n}\n")
        recorded = json.loads(RECORDED.read_text())
        if sorted(recorded) != sorted(FAMILIES):
            sys.exit(f"not in {RECORDED}: {set(recorded) ^ set(FAMILIES)}")
        for name in CHOSEN:
            out, weights, logits = check(name, recorded[name], folder)
            if LONG:
                live[name].check(folder, out, weights, logits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
