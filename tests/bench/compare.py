#!/usr/bin/env python3
"""charl and PyTorch, taking turns in one run: training steps and matrix products.

    compare.py --data FOLDER [--bin FOLDER] [--gpu] [--compile [--no-eager]] [--graph] [--baseline PYTHON[:THREADS]]... [--also SETTING]... [--rounds N] [--seconds S] CASE...

CASE is gemm, mnist-mlp, mnist-cnn, shakespeare or, with --gpu, one of the other STEPS below. Needs no package itself:
PyTorch is used by the interpreters that --baseline names (default: the one that runs this). README.md says the rest.
"""
import argparse
import array
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

HALF = ["train.precision=bf16"]
# case: configuration, dataset, what is set besides
STEPS = {
    "mnist-mlp": ("launch/mnist-mlp.ini", "mnist.h5", []),
    "mnist-cnn": ("launch/mnist-cnn.ini", "mnist.h5", []),
    "shakespeare": ("launch/shakespeare.ini", "shakespeare.h5", []),
    "mlp-32": ("launch/mnist-mlp.ini", "mnist.h5", ["model.hidden=256,256", "model.dropout=0", "train.batch_size=32"]),
    "mlp-8192": ("launch/mnist-mlp.ini", "mnist.h5", ["model.hidden=8192,8192,8192", "train.batch_size=4096"]),
    "gpt2-124m": ("launch/gpt2-124m.ini", "tokens.h5", ["train.batch_size=32"]),
    "gpt2-350m": ("launch/gpt2-124m.ini", "tokens.h5", ["model.n_layer=24", "model.n_head=16", "model.n_embd=1024", "train.batch_size=16"]),
    "gpt2-1.5b": ("launch/gpt2-124m.ini", "tokens.h5", ["model.n_layer=48", "model.n_head=25", "model.n_embd=1600", "train.batch_size=8"]),
    "resnet18": ("tests/bench/resnet50.ini", "pictures.h5", ["model.depth=18"]),
    "resnet50": ("tests/bench/resnet50.ini", "pictures.h5", []),
    "vit-b": ("docs/models/vit.md", "pictures.h5", [
        *HALF, "train.batch_size=128", "layer.patch_embed.proj.channels=768", "layer.patch_embed.proj.kernel=16", "layer.patch_embed.proj.stride=16",
        "layer.patches.shape=768, -1", "layer.pos_embed.block_size=197", "layer.blocks.width=768", "layer.blocks.heads=12", "layer.blocks.repeat=12",
        "layer.head.out=1000"]),
    "convnext-t": ("docs/models/convnext.md", "pictures.h5", [
        *HALF, "train.batch_size=128", "data.augment=", "train.label_smoothing=0", "layer.stem.channels=96", "layer.stem.kernel=4", "layer.stem.stride=4",
        *(f"layer.stage{k + 1}.dim={width}" for k, width in enumerate((96, 192, 384, 768))),
        *(f"layer.stage{k + 1}.repeat={depth}" for k, depth in enumerate((3, 3, 9, 3))),
        *(f"layer.down{k}.dim={96 << (k - 1)}" for k in (2, 3, 4)), "layer.head.out=1000"]),
    "mobilenet": ("docs/models/mobilenet.md", "pictures.h5", [
        *HALF, "train.batch_size=256", "data.augment=", "layer.stem.stride=2", "layer.head.out=1000"]),
    "unet": ("docs/models/unet.md", "masks.h5", [
        *HALF, "train.batch_size=16", *(f"layer.{name}.channels={width}" for name, width in
                 (("inc", 64), ("down1", 128), ("down2", 256), ("down3", 512), ("up1", 256), ("up2", 128), ("up3", 64)))]),
    "bert-base": ("docs/models/bert.md", "tokens.h5", [
        *HALF, "train.batch_size=32", "data.window=512", "layer.bert.embeddings.word_embeddings.vocab=50305",
        "layer.bert.embeddings.word_embeddings.dim=768", "layer.cls.predictions.out=50305", "layer.bert.embeddings.position_embeddings.block_size=512",
        "layer.bert.encoder.layer.width=768", "layer.bert.encoder.layer.heads=12", "layer.bert.encoder.layer.repeat=12",
        "layer.cls.predictions.transform.dense.out=768"]),
    "lstm": ("tests/bench/lstm.ini", "shakespeare.h5", []),
}
for both in ("mnist-mlp", "mnist-cnn", "shakespeare", "mlp-32", "mlp-8192", "lstm"):  # the others are in bf16
    STEPS[f"{both}-bf16"] = (*STEPS[both][:2], STEPS[both][2] + HALF)
PAUSE = 0.3  # threads of OpenMP and OpenBLAS spin for so long after their work


def program(options, name):
    return os.path.join(options.bin, name)


def make_data(charl, name, path):
    """Synthetic data: the time of a step does not depend on what is in them."""
    raw = path + ".raw"
    generator = random.Random(1)
    if name == "mnist.h5":
        subprocess.run([charl, "data", "make", "digits", path, "--train", "8000", "--val", "2000"], check=True, stdout=subprocess.DEVNULL)
    elif name == "shakespeare.h5":
        letters = [chr(33 + i) for i in range(65)]
        with open(raw, "w", encoding="ascii") as f:
            f.write("".join(letters) + "".join(generator.choices(letters, k=1_000_000)))
        subprocess.run([charl, "data", "import", "text", raw, "--tokenizer", "chars", "--val-split", "0.1", "-o", path], check=True, stdout=subprocess.DEVNULL)
    elif name == "tokens.h5":
        with open(raw, "wb") as f:
            array.array("H", [generator.randrange(50257) for _ in range(2_000_000)]).tofile(f)
        subprocess.run([charl, "data", "import", "tokens", raw, "--vocab", "50304", "--val-split", "0.1", "-o", path], check=True, stdout=subprocess.DEVNULL)
    elif name == "pictures.h5":
        write_npy(raw + ".x.npy", "|u1", (1000, 3, 224, 224), generator.randbytes(1000 * 3 * 224 * 224))
        write_npy(raw + ".y.npy", "<i4", (1000,), array.array("i", range(1000)).tobytes())
        subprocess.run([charl, "data", "import", "npy", raw + ".x.npy", raw + ".y.npy", "--val-split", "0.2", "-o", path], check=True, stdout=subprocess.DEVNULL)
        os.remove(raw + ".x.npy")
        os.remove(raw + ".y.npy")
    elif name == "masks.h5":
        write_npy(raw + ".x.npy", "|u1", (40, 3, 256, 256), generator.randbytes(40 * 3 * 256 * 256))
        write_npy(raw + ".y.npy", "<f4", (40, 256 * 256), array.array("f", generator.choices((0, 1), k=40 * 256 * 256)).tobytes())
        subprocess.run([charl, "data", "import", "npy", raw + ".x.npy", raw + ".y.npy", "--val-split", "0.2", "-o", path], check=True, stdout=subprocess.DEVNULL)
        os.remove(raw + ".x.npy")
        os.remove(raw + ".y.npy")
    if os.path.exists(raw):
        os.remove(raw)


def write_npy(path, kind, shape, data):
    """A NumPy file of format 1.0."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(11 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + data)


def configuration(options, path):
    """The configuration at `path` in the tree; of a page of documentation its first one."""
    if not path.endswith(".md"):
        return os.path.join(ROOT, path)
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read().split("```ini\n")[1].split("```")[0]
    copy = os.path.join(options.data, os.path.basename(path)[:-3] + ".ini")
    with open(copy, "w", encoding="utf-8") as f:
        f.write(text)
    return copy


def say(text):
    """How far it is; results are on standard output."""
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Baseline:
    """A worker of PyTorch, idle between its turns."""

    def __init__(self, case, device, python, mode):
        python, _, threads = python.partition(":")
        command = [python, os.path.join(HERE, "torch_worker.py"), case, device]
        command += [f"--{word}" for word in mode] + [f"--threads={threads}"] * bool(threads)
        self.errors = tempfile.TemporaryFile("w+")  # a pipe that nobody empties would stop a worker that warns a lot
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.name, self.times = "PyTorch", []
        line = self.process.stdout.readline()
        if line:
            about = json.loads(line)
            self.name = f"PyTorch {about['torch']}{''.join(' ' + word for word in mode)}"
            self.about = f"{about['blas']}, {about['threads']} threads" if device == "cpu" else "cuBLAS, cuDNN"
        else:
            self.about = "not here: " + self.last_error()
            self.process = None
        say(f"{self.name} ({self.about})")

    def last_error(self):
        self.errors.seek(0)
        return (self.errors.read().strip().splitlines() or ["it ended"])[-1]

    def turn(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended: {self.last_error()}")
        ms = json.loads(line)["ms"]
        say(f"{self.name}: {ms:.3f} ms")
        return ms

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def run_charl(options, arguments):
    done = subprocess.run([program(options, "charl-bench"), *arguments, "--format", "jsonl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"charl-bench {' '.join(arguments)}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def print_row(case, mine, baselines):
    ours = statistics.median(mine)
    print(f"{case:28} {'charl':26} {ours:10.3f} ms  best {min(mine):.3f}")
    for r in baselines:
        if r.times:
            each = [t / m for t, m in zip(r.times, mine)]
            print(f"{'':28} {r.name:26} {statistics.median(r.times):10.3f} ms  best {min(r.times):.3f}  charl is "
                  f"{statistics.median(r.times) / ours:.2f}x as fast (rounds {min(each):.2f} to {max(each):.2f})  {r.about}")
        else:
            print(f"{'':28} {r.name:26} {r.about}")
    sys.stdout.flush()


def open_baselines(options, case):
    device = "cuda" if options.gpu else "cpu"
    modes = [()] * (not options.no_eager) + [("compile",)] * (options.compile and case != "gemm") + [("compile", "graph")] * (options.graph and case != "gemm")
    return [Baseline(case, device, python, mode) for mode in modes for python in options.baseline]


def compare_step(options, case):
    config, data, more = STEPS[case]
    path = os.path.join(options.data, data)
    if not os.path.exists(path):
        make_data(program(options, "charl"), data, path)
    command = ["step", configuration(options, config), f"data.path={path}", *more, f"device.select={'gpu' if options.gpu else 'cpu'}",
               "--repeat", "1", "--ms", str(int(options.seconds * 1e3))]
    baselines, mine, other = open_baselines(options, case), [], []
    for _ in range(options.rounds):
        mine.append(1e3 * run_charl(options, command)[0]["median_s"])
        say(f"charl: {mine[-1]:.3f} ms")
        if options.also:
            other.append(1e3 * run_charl(options, command + options.also)[0]["median_s"])
            say(f"charl {' '.join(options.also)}: {other[-1]:.3f} ms")
        for r in baselines:
            time.sleep(PAUSE)
            if r.process:
                r.times.append(r.turn(str(options.seconds)))
        time.sleep(PAUSE)
    print_row(case, mine, baselines)
    if options.also:
        print_row(f"{case} {' '.join(options.also)}", other, baselines)
    for r in baselines:
        r.close()


def compare_gemm(options):
    """Every shape that `charl-bench gemm` has for the device."""
    common = ["gemm", "--device", "gpu" if options.gpu else "cpu", "--repeat", "1"]
    baselines = open_baselines(options, "gemm")
    for first in [row for row in run_charl(options, [*common, "--ms", "1"]) if row["subject"] == "charl"]:
        extents, form, dtype = first["case"].split()
        m, n, k = extents.split("x")
        mine = []
        for r in baselines:
            r.times = []
        for _ in range(options.rounds):
            rows = run_charl(options, [*common, "--ms", str(int(options.seconds * 1e3)), "--dtype", dtype, "--shape", f"{extents}:{form}"])
            mine.append(1e3 * next(row["median_s"] for row in rows if row["subject"] == "charl"))
            for r in baselines:
                time.sleep(PAUSE)
                if r.process:
                    r.times.append(r.turn(f"{options.seconds} {m} {n} {k} {form} {dtype}"))
            time.sleep(PAUSE)
        print_row(f"gemm {first['case']}", mine, baselines)
    for r in baselines:
        r.close()


def print_machine(options):
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), model)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    version = subprocess.run([program(options, "charl-bench"), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    print(f"{version}; {model}, {cores} cores; {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC; "
          f"{options.rounds} rounds of {options.seconds} s; load {load:.1f} at the beginning"
          f"{': the machine is not idle' if load > 0.5 * cores else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of datasets; what is missing is made")
    parser.add_argument("--bin", default="", help="the folder of charl and charl-bench (default: those on PATH)")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile as one more baseline")
    parser.add_argument("--graph", action="store_true", help="torch.compile with each step as one CUDA graph as one more baseline; with --gpu")
    parser.add_argument("--no-eager", action="store_true", help="with --compile or --graph, without eager PyTorch, where a GPU has no room for both")
    parser.add_argument("--baseline", action="append", help="an interpreter that has PyTorch, and its number of threads")
    parser.add_argument("--also", action="append", metavar="SETTING", help="measure charl's steps with this setting, too, such as train.slices=1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    parser.add_argument("case", nargs="+", choices=[*STEPS, "gemm"])
    options = parser.parse_args()
    if options.no_eager and not ((options.compile or options.graph) and "gemm" not in options.case):
        parser.error("--no-eager leaves nothing to compare with: it goes with --compile or --graph, and not with gemm")
    if options.graph and not options.gpu:
        parser.error("--graph goes with --gpu")
    options.baseline = options.baseline or [sys.executable]
    for name in ("charl", "charl-bench"):
        if not shutil.which(program(options, name)):
            parser.error(f"{program(options, name)}: no such program")
    for baseline in options.baseline:
        if not shutil.which(baseline.partition(":")[0]):
            parser.error(f"--baseline {baseline}: no such interpreter")
    os.makedirs(options.data, exist_ok=True)
    print_machine(options)
    for case in options.case:
        if case == "gemm":
            compare_gemm(options)
        else:
            compare_step(options, case)


main()
