#!/usr/bin/python3
"""Trains the examples of docs/results.md to their end, proves the runs, verifies the proofs, and writes the tables of the page.

    results.py data FOLDER                  make the data sets in FOLDER
    results.py run FOLDER [NAME...]         train these examples, or all, on the device that charl-train picks; a proof of each
    results.py verify FOLDER [NAME...]      `charl verify` these proofs
    results.py record FOLDER                put what FOLDER has into docs/results: runs.jsonl, verified.jsonl, NAME.lock of the first seed
    results.py page                         write the tables of docs/results.md anew, from docs/results

    --steps N       a rehearsal: end each training after N steps
    --segments K    of each proof, verify K segments

NAME is that of a case below, with :SEED for one of its seeds. The programs are those of $CHARL_BIN_DIR (build/release/src/cli), real data those of
$CHARL_TEST_DATA (CONTRIBUTING.md), the device that of $CHARL_DEVICE. Needs h5py and NumPy. All runs take 15 GB, most of it those of GPT-2's size.
Several `run` and `verify` may work side by side on one FOLDER, after `data`.
"""
import argparse
import collections
import gzip
import json
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "results.md"
BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", ROOT / "build/release/src/cli")).resolve()
REAL = pathlib.Path(os.environ.pop("CHARL_TEST_DATA", "datasets")).resolve()

# source: a file of launch/ or docs/results/, or page#n, the n-th configuration of a page. stops: steps after which the training stops and goes on, so that a
# segment is short enough for a CPU. proof: segments, 0: all. draw: the seed that draws them, where stops are the one beside the stop.
Case = collections.namedtuple("Case", "name source data settings seeds stops proof draw", defaults=([], (1,), (), 2, 1))
FIRST, LAST, BOTH = 160, 11, 226

INTEGER = ["train.products=integer"]
ON_DIGITS = ["train.epochs=3", "scheduler.warmup_steps=40", "checkpoint.keep_every=5"]
GPT2 = ["model.from={folder}/gpt2", "init.from={folder}/gpt2"]
LLAMA = ["model.from={folder}/llama", "init.from={folder}/llama"]

CASES = [
    Case("digits", "launch/digits", "digits", [], (1, 2, 3), proof=0),
    Case("digits-outputs", "launch/digits-outputs", "digits", [], (1, 2, 3)),
    Case("mnist-mlp", "launch/mnist-mlp", "mnist", [], (42, 1, 2)),
    Case("mnist-cnn", "launch/mnist-cnn", "mnist", [], (42, 1, 2)),
    Case("photos", "launch/photos", "photos", [], (1, 2, 3)),
    Case("text", "launch/text", "characters", [], (1, 2, 3)),
    Case("shakespeare", "launch/shakespeare", "characters", [], (1337, 1, 2)),
    Case("shakespeare+integer", "launch/shakespeare", "characters", INTEGER, (1337, 1, 2), (1996,), 1, LAST),
    Case("shakespeare-gpu", "launch/shakespeare-gpu", "characters", ["checkpoint.keep_last=2", "checkpoint.keep_every=11"],
         (1337, 1, 2), (11, 4990), 2, BOTH),
    Case("shakespeare-gpu+integer", "launch/shakespeare-gpu", "characters",
         [*INTEGER, "checkpoint.keep_last=2", "checkpoint.keep_every=3"], (1337, 1, 2), (3,), 1, FIRST),
    Case("gpt2-laptop", "launch/gpt2-laptop", "second", GPT2, (1337, 1, 2)),
    Case("llama-lora", "launch/llama-lora", "second", [*LLAMA, "checkpoint.weights=all"], (1337, 1, 2)),
    Case("flowers", "docs/results/flowers", "flowers", [], (1, 2, 3), proof=0),
    Case("autoencoder", "docs/models/autoencoder#1", "masks"),
    Case("bert", "docs/models/bert#1", "bytes"),
    Case("cnn", "docs/models/cnn#1", "mnist"),
    Case("cnn-2", "docs/models/cnn#2", "digits", ["train.epochs=2"]),
    Case("convnext", "docs/models/convnext#1", "digits", ON_DIGITS, (1,), (5,), 1, FIRST),
    Case("efficientnet", "docs/models/efficientnet#1", "pictures", [], (1,), (), 1, LAST),
    Case("gpt", "docs/models/gpt#1", "characters"),
    Case("mlp", "docs/models/mlp#1", "digits"),
    Case("mobilenet", "docs/models/mobilenet#1", "digits", ON_DIGITS, (1,), (5,), 1, FIRST),
    Case("resnet", "docs/models/resnet#1", "digits", ON_DIGITS, (1,), (5,), 1, FIRST),
    Case("resnet-2", "docs/models/resnet#2", "digits", ["train.epochs=2"]),
    Case("sequential", "docs/models/sequential#1", "digits", ["train.epochs=2"]),
    Case("sequential-2", "docs/models/sequential#2", "digits"),
    Case("sequential-3", "docs/models/sequential#3", "digits", ["train.epochs=2"]),
    Case("sequential-4", "docs/models/sequential#4", "bytes"),
    Case("tcn", "docs/models/tcn#1", "bytes"),
    Case("unet", "docs/models/unet#1", "masks"),
    Case("vit", "docs/models/vit#1", "digits"),
]

# What gpt2-laptop and llama-lora start from: models of these shapes, trained on the first half of the text.
BASES = {
    "gpt2": ("n_layer = 12\nn_head = 12\nn_embd = 768\nblock_size = 1024\nbias = yes\nmlp = gelu_tanh\n", 8, 300),
    "llama": ("n_layer = 4\nn_head = 8\nn_kv_head = 4\nn_embd = 512\nblock_size = 512\nbias = no\nnorm = rms\nmlp = swiglu\n"
              "positions = rotary\ntie_weights = no\n", 16, 300),
}


def charl(*arguments, **keywords):
    return subprocess.run([BIN / "charl", *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True, **keywords).stdout


def blocks(page, language):
    """The texts of a page's blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)


def config_of(case, folder):
    """The path of its configuration. Those of pages are written to the folder."""
    page, _, n = case.source.partition("#")
    if not n:
        return ROOT / (page + ".ini")
    path = folder / "configs" / (case.name + ".ini")
    path.parent.mkdir(exist_ok=True)
    path.write_text(blocks(page + ".md", "ini")[int(n) - 1])
    return path


def each_epoch(path):
    """The setting that saves a checkpoint after each epoch, where the configuration does not say when: by default that depends on the time."""
    return [] if re.search(r"^\[checkpoint\]\n(?:(?!\[).*\n)*?interval", path.read_text(), re.M) else ["checkpoint.interval=1ep"]


def write_png(path, side, pixels):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + pixels[i * side:(i + 1) * side] for i in range(side))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_flowers(folder):
    """A table of three classes, each drawn from normal distributions."""
    draw = random.Random(1)
    centres = {"Astra": (5.0, 3.4, 1.5, 0.3), "Borago": (5.9, 2.8, 4.3, 1.3), "Crocus": (6.4, 3.0, 5.4, 1.9)}
    rows = [(name, [draw.gauss(m, 0.4) for m in centres[name]]) for _ in range(300) for name in centres]
    (folder / "flowers.csv").write_text("a,b,c,d,flower\n" + "".join(
        ",".join(f"{x:.2f}" for x in values) + f",{name}\n" for name, values in rows))
    charl("data", "import", "csv", folder / "flowers.csv", "--label", "flower", "--val-split", 0.2, "-o", folder / "flowers.h5")


def make_data(folder):
    charl("data", "make", "digits", folder / "digits.h5")

    mnist = [REAL / "mnist10k" / name for name in ("images-idx3-ubyte.gz", "labels-idx1-ubyte.gz")]
    charl("data", "import", "idx", *mnist, "--val-split", 0.2, "-o", folder / "mnist.h5")
    images, labels = (gzip.decompress(p.read_bytes()) for p in mnist)
    for n, name in ((2000, "photos"), (240, "pictures")):
        for i in range(n):
            write_png(folder / name / str(labels[8 + i]) / f"{i}.png", 28, images[16 + 784 * i:16 + 784 * (i + 1)])
    charl("data", "import", "images", folder / "photos", "--size", "64x64", "--val-split", 0.1, "-o", folder / "photos.h5")
    charl("data", "import", "images", folder / "pictures", "--size", 224, "--val-split", 0.1, "-o", folder / "pictures.h5")

    make_flowers(folder)
    (program,) = blocks("docs/models/unet.md", "python")
    subprocess.run([sys.executable, "-c", program], check=True, cwd=folder)

    text = REAL / "tinyshakespeare.txt"
    charl("data", "import", "text", text, "--tokenizer", "chars", "--val-split", 0.1, "-o", folder / "characters.h5")
    charl("data", "import", "text", text, "--val-split", 0.1, "-o", folder / "bytes.h5")
    whole = text.read_text()
    half = whole.index("\n\n", len(whole) // 2) + 2
    for name, part in (("first", whole[:half]), ("second", whole[half:])):
        (folder / (name + ".txt")).write_text(part)
        charl("data", "import", "text", folder / (name + ".txt"), "--tokenizer", REAL / "gpt2-tokenizer", "--val-split", 0.1, "-o",
              folder / (name + ".h5"))


def make_base(folder, name, steps):
    """A model in the form of Hugging Face, and its loss on the text that it is then tuned to."""
    model, batch, most = BASES[name]
    config = folder / f"base-{name}.ini"
    config.write_text(f"[run]\nseed = 1\n[data]\npath = first.h5\n[model]\ntype = gpt\ndropout = 0\n{model}"
                      f"[train]\nmax_steps = {steps or most}\nbatch_size = {batch}\nprecision = bf16\ngrad_clip = 1\n"
                      "[optimizer]\ntype = adamw\nlearning_rate = 6e-4\nweight_decay = 0.1\n"
                      "[scheduler]\ntype = cosine\nwarmup_steps = 50\n[eval]\ninterval = 100\nmax_batches = 10\n"
                      "[checkpoint]\ninterval = 0\n")
    run = folder / f"base-{name}"
    subprocess.run([BIN / "charl-train", "-q", "-o", run, config], check=True, stdout=subprocess.DEVNULL)
    (folder / f"base-{name}.txt").write_text(charl("eval", config, run / "last.h5", f"data.path={folder}/second.h5"))
    charl("checkpoint", "export", run / "last.h5", "--layout", "huggingface", "-o", folder / name)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path, record):
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(record) + "\n")


def numbers_of(event):
    return {k: v for k, v in event.items() if k not in ("event", "epoch", "best", "elapsed_s", "time")}


def record_of(case, seed, run, seconds):
    """What the page says of a run."""
    val = [e for e in lines_of(run / "metrics.jsonl") if e["event"] == "val"]
    lock = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in (run / "run.lock").read_text().splitlines()]
    saved = [line for line in lock if "metrics" in line][-1]
    environment = json.loads((run / "env.json").read_text())
    device = environment["devices"][0]
    best = [e for e in val if e.get("best")]
    return {"name": case.name, "seed": seed, "steps": int(saved["step"]), "tensors": saved["tensors"], "hash": lock[-1]["hash"],
            "last": numbers_of(val[-1]) if val else {}, "best": numbers_of(best[-1]) if best else {}, "seconds": round(seconds, 1),
            "device": device["name"], "driver": device["driver"], "date": time.strftime("%Y-%m-%d", time.gmtime())}


def run_case(case, seed, folder, steps):
    settings = [s.format(folder=folder) for s in case.settings]
    started = [s.split("=")[1] for s in settings if s.startswith("init.from=")]
    if started and not os.path.isdir(started[0]):
        make_base(folder, os.path.basename(started[0]), steps)
    run, proof = folder / "runs" / f"{case.name}-{seed}", folder / "proofs" / f"{case.name}-{seed}.proof"
    proof.parent.mkdir(exist_ok=True)
    config = config_of(case, folder)
    command = [BIN / "charl-train", "-q", "-o", run, config, f"data.path={folder}/{case.data}.h5", f"run.seed={seed}", *each_epoch(config), *settings]
    if steps:
        command.append(f"train.max_steps={steps}")
    begin = time.monotonic()
    before = 0
    for stop in case.stops:
        if steps:
            stop = before + 1
        done = subprocess.run(command, env={**os.environ, "CHARL_FAULT": f"train.stop:{stop - before + 1}"}, stdout=subprocess.DEVNULL)
        if done.returncode != 75:
            raise subprocess.CalledProcessError(done.returncode, command)
        before = stop
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - begin
    shown = charl("prove", run, "-o", proof, "--segments", case.proof or 1000, "--seed", case.draw)
    record = record_of(case, seed, run, seconds)
    record["proof"] = {"bytes": proof.stat().st_size, "steps": re.findall(r"^steps (\d+ to \d+): replayed, as recorded", shown, re.M)}
    append(folder / "runs.jsonl", record)
    print(f"{case.name} seed {seed}: {seconds:.0f} s, {record['last']}, proof of {', '.join(record['proof']['steps'])}", flush=True)


def verify_case(case, seed, folder, segments):
    proof = folder / "proofs" / f"{case.name}-{seed}.proof"
    begin = time.monotonic()
    done = subprocess.run([BIN / "charl", "verify", proof, *(["--segments", str(segments)] if segments else [])],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.monotonic() - begin
    found = re.findall(r"^steps (\d+ to \d+): replayed, as recorded \(.*, on (.*)\)$", done.stdout, re.M)
    if done.returncode != 0 or not found:
        print(f"FAILED: {case.name} seed {seed}: exit code {done.returncode}: {done.stdout[-1500:]}", flush=True)
        return False
    append(folder / "verified.jsonl", {"name": case.name, "seed": seed, "device": found[0][1], "steps": [f[0] for f in found],
                                       "hash": re.search(r"^last hash: (\w+)$", done.stdout, re.M)[1], "seconds": round(seconds, 1)})
    print(f"{case.name} seed {seed}: verified {', '.join(f[0] for f in found)} on {found[0][1]}, {seconds:.0f} s", flush=True)
    return True


def merge(name, folder, key):
    """Lines of a file of docs/results, those of the folder in place of older ones with the same key."""
    lines = {tuple(str(line[k]) for k in key): line for line in lines_of(RECORDS / name) + lines_of(folder / name)}
    order = [case.name for case in CASES]
    with open(RECORDS / name, "w", encoding="utf-8") as f:
        for line in sorted(lines.values(), key=lambda line: (order.index(line["name"]), line["seed"] if name == "runs.jsonl" else 0)):
            f.write(json.dumps(line) + "\n")


def record(folder):
    RECORDS.mkdir(exist_ok=True)
    merge("runs.jsonl", folder, ("name", "seed"))
    merge("verified.jsonl", folder, ("name", "seed", "device", "steps"))
    for case in CASES:
        lock = folder / "runs" / f"{case.name}-{case.seeds[0]}" / "run.lock"
        if lock.exists():
            (RECORDS / (case.name + ".lock")).write_text(lock.read_text())


def spread(values):
    """Mean and standard deviation, to the digit in which the deviation has two."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    deviation = statistics.stdev(values)
    places = 4 if deviation < 0.1 else 2
    return f"{statistics.mean(values):.{places}f} ± {deviation:.{places}f}"


def metrics_of(runs, which):
    """The metrics of some runs as a cell of a table."""
    shown = [k for k in runs[0][which] if k not in ("step", "perplexity") and not k.endswith(".loss")]
    return ", ".join(f"{k} {spread([r[which][k] for r in runs])}" for k in shown)


def link_of(case):
    page, _, n = case.source.partition("#")
    name = page.rpartition("/")[2]
    if page.startswith("launch/"):
        return f"[{name}.ini](../{page}.ini)" + (" `train.products=integer`" if case.name.endswith("+integer") else "")
    if not n:
        return f"[{name}.ini](results/{name}.ini)"
    return f"[{page.removeprefix('docs/')}.md]({page.removeprefix('docs/')}.md)" + (f", {n}" if n != "1" else "")


def rows_of_runs(cases, recorded):
    """A row for each case: of its seeds, those that came to the end."""
    for case in cases:
        mine = [r for seed in case.seeds for r in recorded if (r["name"], r["seed"]) == (case.name, seed)]
        runs = [r for r in mine if r["steps"] == mine[0]["steps"]]
        if runs:
            yield (f"| {link_of(case)} | {runs[0]['steps']:,} | {', '.join(str(r['seed']) for r in runs)} | {metrics_of(runs, 'last')} | "
                   f"[{runs[0]['tensors'][:12]}](results/{case.name}.lock) | {min(r['seconds'] for r in runs):.0f} |")


def table_of(what, recorded, verified):
    if what == "verified":
        found = collections.defaultdict(list)
        for v in verified:
            found[v["device"], v["name"]] += [f"{steps} (seed {v['seed']})" for steps in v["steps"]]
        return ["| run | computed again on | steps |", "|---|---|---|",
                *(f"| {name} | {device} | {', '.join(dict.fromkeys(steps))} |" for (device, name), steps in sorted(found.items()))]
    launch = what == "launch"
    cases = [c for c in CASES if c.source.startswith("launch/") == launch]
    return [f"| {'configuration' if launch else 'page'} | steps | seeds | validation after the last step | tensors | seconds |",
            "|---|---|---|---|---|---|", *rows_of_runs(cases, recorded)]


def write_page(text):
    """The page with its tables, each between two comments."""
    recorded, verified = lines_of(RECORDS / "runs.jsonl"), lines_of(RECORDS / "verified.jsonl")
    return re.sub(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)",
                  lambda m: m[1] + "\n" + "\n".join(table_of(m[2], recorded, verified)) + "\n\n" + m[3], text, flags=re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("data", "run", "verify", "record", "page"))
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--segments", type=int, default=0)
    args = parser.parse_intermixed_args()
    folder = args.folder.resolve() if args.folder else None
    wanted = [(c, s) for c in CASES for s in c.seeds if not args.names or c.name in args.names or f"{c.name}:{s}" in args.names]
    failed = 0

    if args.what == "record":
        record(folder)
    if args.what == "page":
        PAGE.write_text(write_page(PAGE.read_text()))
    if args.what == "data":
        folder.mkdir(exist_ok=True)
        make_data(folder)
    for case, seed in wanted if args.what in ("run", "verify") else []:
        if args.what == "run":
            try:
                run_case(case, seed, folder, args.steps)
            except (subprocess.CalledProcessError, OSError, KeyError, IndexError) as problem:
                failed += 1
                print(f"FAILED: {case.name} seed {seed}: {problem}", flush=True)
        elif (folder / "proofs" / f"{case.name}-{seed}.proof").exists():
            failed += not verify_case(case, seed, folder, args.segments)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
