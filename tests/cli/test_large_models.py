#!/usr/bin/python3
"""The plan for large models in docs/distributed.md: its tables are computed here, from pieces that were measured, and must be on the
page; the formula of the memory is compared with `charl model memory`. `test_large_models.py --print` prints the tables."""
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Measured pieces, and where they are.
RATE_OF = dict(layers=48, width=1600, window=1024, parameters=1.558e9, tokens=8192, seconds=0.190)  # docs/benchmarks.md, GPT-2 1.5B, train.slices = 1
NEAR = 343e9  # bytes/s of an all-reduce in a node: docs/benchmarks/measurements.md, 512 MiB on 4 GPUs
HOST = 55e9  # bytes/s between a GPU and pinned memory: docs/benchmarks/measurements.md, "A small step"
MESSAGES = 2.4e9  # bytes/s per rank, by Open MPI: docs/benchmarks.md
# Assumed: nodes of 8 GPUs, their links, 4 windows of 2048 tokens per GPU and step in one slice, buckets of 256 MiB, f32 sums, activations recomputed.
NODE, LATENCY, WINDOW, WINDOWS, BUCKET, DEVICE = 8, 5e-6, 2048, 4, 256 * 2**20, 141e9
VOCABULARY = 32000
MODELS = {"7B": dict(layers=32, width=4096, heads=32, kv=32, hidden=11008),
          "13B": dict(layers=40, width=5120, heads=40, kv=40, hidden=13824),
          "70B": dict(layers=80, width=8192, heads=64, kv=8, hidden=28672)}
MODES = ("none", "optimizer", "gradients", "parameters")


def block(m):
    kv = m["width"] * m["kv"] // m["heads"]
    return 2 * m["width"] * (m["width"] + kv) + 3 * m["width"] * m["hidden"] + 2 * m["width"]


def parameters(m):
    return m["layers"] * block(m) + 2 * VOCABULARY * m["width"] + m["width"]


def activations(m, windows=WINDOWS, window=WINDOW):
    """bf16, train.recompute = yes: one vector per layer and what is alive in the backward pass of a block."""
    qkv = m["width"] * (m["heads"] + 2 * m["kv"]) // m["heads"]
    return 2 * windows * window * (5 * m["hidden"] + qkv + (m["layers"] + 5) * m["width"])


def memory(m, devices, mode):
    """f32 parameters, gradients, their sums and 8 bytes of adamw; 2 bytes of the working copy."""
    p = parameters(m)
    one = max(VOCABULARY * m["width"], m["width"] * m["hidden"])  # block
    state = {"none": 22 * p, "optimizer": 14 * p + 8 * p / devices, "gradients": 10 * p + 8 * p / devices,
             "parameters": 4 * p + 14 * p / devices + 2 * one}[mode]
    return state + activations(m)


def flop(m, window):
    return 6 * m["parameters"] + 6 * m["layers"] * m["width"] * window


def compute(m):
    rate = flop(RATE_OF, RATE_OF["window"]) * RATE_OF["tokens"] / RATE_OF["seconds"]
    return WINDOWS * WINDOW * flop(dict(m, parameters=parameters(m)), WINDOW) * 4 / 3 / rate  # 4/3: recomputed


def traffic(m, devices, mode):
    """What a node sends in a step, in gradients and in parameters: bytes."""
    s, nodes = 4 * parameters(m), devices // NODE
    share = (nodes - 1) / nodes
    return {"none": (2 * s * share, 0), "optimizer": (2 * s * share, s * share),
            "gradients": (s * share, s * share),
            "parameters": (s * share, s * share)}[mode]  # working copies in bf16, twice


def seconds(m, devices, mode, far):
    s, nodes, t = 4 * parameters(m), devices // NODE, compute(m)
    through_host = mode in ("gradients", "parameters") and nodes > 1  # dist.allreduce = hierarchical
    near_part = s / HOST if through_host else (NODE - 1) / NODE * s / NEAR
    sums, gathered = traffic(m, devices, mode)
    buckets = math.ceil(s / BUCKET)
    rounds = 2 if mode in ("none", "optimizer") else 1
    each = (rounds * near_part + sums / far) / buckets + (rounds * (nodes - 1) * LATENCY)
    gather = near_part + gathered / far + (nodes - 1) * LATENCY * m["layers"]
    backward, done = 3 / 4 * t, 0.0
    for i in range(1, buckets + 1):
        done = max(done, backward * i / buckets) + each
    if mode == "parameters":  # 2 bytes, twice
        return max(t + done - backward, s * (devices - 1) / devices / MESSAGES) + s / HOST
    return t + done - backward + (gather if mode != "none" else 0)


def table(name, m):
    rows = [f"{name}: {parameters(m) / 1e9:.2f} billion parameters, {compute(m):.2f} s of computing per step", "",
            "| GPUs | `dist.shard` | GB per GPU | GB per node and step | s per step, 25 GB/s | 100 GB/s |", "|---|---|---|---|---|---|"]
    for devices in (8, 64, 1024):
        for mode in MODES:
            gb = memory(m, devices, mode) / 1e9
            sent = sum(traffic(m, devices, mode)) / 1e9
            times = [f"{seconds(m, devices, mode, far):.2f}" for far in (25e9, 100e9)]
            if gb > DEVICE / 1e9:
                times = ["does not fit", ""]
            elif devices == NODE:
                times = [times[0], "the same"]
            rows.append(f"| {devices:,} | `{mode}` | {gb:.0f} | {sent:.0f} | {times[0]} | {times[1]} |")
    return "\n".join(rows)


def tables():
    return "\n\n".join(table(name, m) for name, m in MODELS.items()) + "\n"


def compare_with_charl():
    """Bytes per parameter of one rank (whose gradients are their sum), and activations."""
    m = dict(layers=4, width=256, heads=4, kv=2, hidden=704)
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *words: subprocess.run([os.path.join(os.environ["CHARL_BIN_DIR"], "charl"), *words], cwd=folder, check=True,
                                            capture_output=True, text=True).stdout
        pathlib.Path(folder, "text.txt").write_text("\n".join(map(str, range(20000))))
        run("data", "import", "text", "text.txt", "-o", "text.h5")
        pathlib.Path(folder, "llama.ini").write_text(
            f"[data]\npath = text.h5\n[model]\ntype = gpt\nn_layer = {m['layers']}\nn_head = {m['heads']}\nn_kv_head = {m['kv']}\n"
            f"n_embd = {m['width']}\nhidden = {m['hidden']}\nblock_size = 512\nnorm = rms\nmlp = swiglu\npositions = rotary\nbias = no\n"
            f"tie_weights = no\nvocab_size = {VOCABULARY}\n[train]\nbatch_size = 1\nslices = 1\nprecision = bf16\nrecompute = yes\n"
            "[optimizer]\ntype = adamw\n")
        text = run("model", "memory", "llama.ini")
    unit = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    sizes = {name: float(n) * unit[u] for name, n, u in re.findall(r"^  ([a-z ]+?) +([0-9.]+) (.iB) +[0-9.]+ %$", text, re.M)}
    state = sum(sizes[k] for k in ("parameters", "gradients", "optimizer state", "working copy of the parameters"))
    # The logits of this small model take more than a block; those of the large ones do not.
    logits = 2 * 512 * (VOCABULARY + (m["layers"] + 3) * m["width"])
    assert abs(state / (18 * parameters(m)) - 1) < 0.01, (state, parameters(m), text)
    want = max(activations(m, 1, 512), logits)
    assert abs(sizes["activations"] / want - 1) < 0.01, (sizes["activations"], want, text)


if sys.argv[1:] == ["--print"]:
    print(tables(), end="")
    sys.exit()
for model in MODELS.values():
    assert 2 * WINDOW * VOCABULARY < activations(model, 1)
page = (pathlib.Path(__file__).resolve().parents[2] / "docs/distributed.md").read_text()
assert tables() in page, "docs/distributed.md: its tables are not those of tests/cli/test_large_models.py --print"
compare_with_charl()
