#!/usr/bin/python3
"""100 steps of every example of launch/ in f32, and of some in half types with products of integers, give the tensors that examples.txt
records, on any device that rounds as IEEE 754 says.

A line of examples.txt has the SHA-256 of all tensors of the checkpoint of step 100, weights and optimizer state, as run.lock has it. The
data are made here, the same everywhere. Examples that a CPU would not finish are made smaller by the settings below: in the batch, the
size of images or the length of texts, and the largest models in their width and depth. Everything else is as in the file.

    test_examples.py [NAME...]              compare these examples, or all of them, on the device that charl-train picks by itself
    test_examples.py --record [NAME...]     write their lines of examples.txt anew, which a commit that changes bits must explain
    test_examples.py --mixed "0, 1" [NAME...]   two ranks, each on a device of its own (as device.select, see `charl devices`)

Where an example fails by its hash, the hash is printed. $CHARL_DEVICE picks another device for the first two forms.

Only mnist-mlp and digits run in the tests, unless CHARL_TEST_LONG=1. The programs are those of $CHARL_BIN_DIR. Needs nothing but Python.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LAUNCH = HERE.parent.parent / "launch"
RECORDED = HERE / "examples.txt"
BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", "")).resolve()
LONG = bool(os.environ.pop("CHARL_TEST_LONG", ""))
for name in ("CHARL_TEST_SHORT", "CHARL_TEST_DATA"):  # charl warns of variables that it does not know
    os.environ.pop(name, None)

STEPS = 100
COMMON = [f"train.max_steps={STEPS}", f"checkpoint.interval={STEPS}", "eval.interval=0", "data.val_split=0", "train.precision=f32",
          "device.share=yes", "device.memory_limit=0"]
SHORT_CASES = ("mnist-mlp", "digits")

INTEGER = ["train.products=integer"]
BF16 = [*INTEGER, "train.precision=bf16"]
F16 = [*INTEGER, "train.precision=f16"]
LLAMA = ["model.n_layer=2", "model.n_embd=256", "model.n_kv_head=2", "model.mlp=swiglu", "model.positions=rotary", "model.norm=rms"]

# name of a file of launch/, after + what differs; data set, settings
CASES = [
    ("mnist-mlp", "digits.h5", []),
    ("mnist-cnn", "digits.h5", []),
    ("digits", "digits.h5", []),
    ("digits-outputs", "digits.h5", []),
    ("digits-diffusion", "digits.h5", []),
    ("digits-towers", "digits.h5", []),
    ("digits-unet", "digits.h5", []),
    ("photos", "pictures.h5", []),
    ("cifar10-resnet", "pictures.h5", ["train.batch_size=16"]),
    ("imagenet-resnet50", "pictures.h5", ["train.batch_size=8", "data.image_size=32", "data.augment=flip, resized_crop:0.08"]),
    ("table", "digits.h5", []),
    ("text", "text.h5", []),
    ("shakespeare", "characters.h5", []),
    ("shakespeare-gpu", "characters.h5", ["train.batch_size=8", "model.block_size=64"]),
    ("gpt2-124m", "text.h5", ["train.batch_size=8", "model.block_size=32", "model.n_layer=4"]),
    ("gpt2-finetune", "text.h5", ["train.batch_size=8", "model.block_size=32", "model.from=gpt2", "init.from=gpt2"]),
    ("gpt2-laptop", "text.h5", ["model.block_size=32", "model.from=gpt2", "init.from=gpt2"]),
    ("llama-lora", "text.h5", ["model.block_size=32", "model.from=llama", "init.from=llama"]),
    ("mnist-cnn+integer", "digits.h5", [*INTEGER, "model.channels=32, 48"]),
    ("shakespeare+integer", "characters.h5", INTEGER),
    ("shakespeare+llama+integer", "characters.h5", [*INTEGER, *LLAMA]),
    ("mnist-cnn+bf16", "digits.h5", BF16),
    ("shakespeare+bf16", "characters.h5", BF16),
    ("shakespeare+llama+bf16", "characters.h5", [*BF16, *LLAMA]),
    ("shakespeare+f16", "characters.h5", F16),
]

# What gpt2-finetune, gpt2-laptop and llama-lora start from: models that were trained for a step and exported.
WEIGHTS = {
    "gpt2": "n_layer = 2\nn_head = 4\nn_embd = 128\nbias = yes\nmlp = gelu_tanh\n",
    "llama": "n_layer = 2\nn_head = 4\nn_kv_head = 2\nn_embd = 128\nbias = no\nnorm = rms\nmlp = swiglu\npositions = rotary\ntie_weights = no\n",
}


def charl(*arguments):
    subprocess.run([BIN / "charl", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def noise(n, seed):
    """n bytes that are the same everywhere: of a linear congruential generator."""
    out, x = bytearray(n), seed
    for i in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        out[i] = x >> 56
    return out


def make_data():
    """The data sets of all examples, in the current directory."""
    charl("data", "make", "digits", "digits.h5", "-t", 6000, "-v", 10)

    # 640 pictures of 3 x 32 x 32 in CIFAR-10's form: coarse patches, so that there is something to learn.
    rows = bytearray()
    for i in range(640):
        patch = noise(48, i % 10)
        jitter = noise(3072, 1000 + i)
        rows.append(i % 10)
        for channel in range(3):
            for y in range(32):
                for x in range(32):
                    at = channel * 1024 + y * 32 + x
                    rows.append((3 * patch[channel * 16 + y // 8 * 4 + x // 8] + jitter[at]) // 4)
    pathlib.Path("pictures.bin").write_bytes(rows)
    charl("data", "import", "cifar10", "pictures.bin", "-o", "pictures.h5")

    words = "to be or not that is the question whether nobler in mind suffer slings and arrows of fortune".split()
    order = noise(40000, 7)
    text = " ".join(words[b % len(words)] + ("\n" if b > 240 else "") for b in order)
    pathlib.Path("text.txt").write_text(text)
    charl("data", "import", "text", "text.txt", "-o", "text.h5")
    charl("data", "import", "text", "text.txt", "--tokenizer", "chars", "-o", "characters.h5")


def make_weights(name):
    config = pathlib.Path(name + ".ini")
    config.write_text(f"[data]\npath = text.h5\n[model]\ntype = gpt\nblock_size = 64\n{WEIGHTS[name]}"
                      "[train]\nmax_steps = 1\nbatch_size = 8\n[eval]\ninterval = 0\n[device]\nshare = yes\n")
    subprocess.run([BIN / "charl-train", "-q", "-o", "made-" + name, config], check=True, stdout=subprocess.DEVNULL)
    charl("checkpoint", "export", f"made-{name}/last.h5", "--layout", "huggingface", "-o", name)


def devices_of(checkpoint):
    """The models of the devices that computed a checkpoint."""
    shown = subprocess.run([BIN / "charl", "checkpoint", "show", checkpoint], check=True, stdout=subprocess.PIPE, text=True).stdout
    (line,) = [x for x in shown.splitlines() if x.startswith("  device ")]
    return line.removeprefix("  device ").strip().split(" + ")


def train(case, mixed):
    """Its hash; None and what was printed where training fails."""
    name, data, settings = case
    here = os.getcwd()
    settings = [s.replace(".from=", f".from={here}/") for s in settings]  # paths of a file are relative to it, those of settings too
    started = [s.split("=")[1] for s in settings if s.startswith("init.from=")]
    if started and not os.path.isdir(started[0]):
        make_weights(os.path.basename(started[0]))
    ranks = ["--simulate-ranks", "2", "device.select=" + mixed, "train.exact=anywhere"] if mixed else []
    done = subprocess.run([BIN / "charl-train", "-q", "-o", f"{here}/run-{name}", LAUNCH / (name.split("+")[0] + ".ini"), *COMMON,
                           f"data.path={here}/{data}", *settings, *ranks],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        return None, f"exit code {done.returncode}: {done.stdout[-2000:]}"
    devices = devices_of(f"run-{name}/last.h5")
    if mixed and len(devices) != 2:
        return None, f"both ranks computed on {devices[0]}, so nothing is compared"
    for line in pathlib.Path(f"run-{name}/run.lock").read_text().splitlines():
        words = line.split()
        if words[:2] == ["checkpoint", f"step={STEPS}"]:
            return words[2].removeprefix("tensors="), ""
    return None, f"run.lock has no checkpoint of step {STEPS}"


def main():
    arguments = sys.argv[1:]
    mixed = arguments.pop(arguments.index("--mixed") + 1) if "--mixed" in arguments else ""
    record = "--record" in arguments
    names = [a for a in arguments if not a.startswith("--")]
    unknown = set(names) - {c[0] for c in CASES}
    if unknown:
        sys.exit(f"no example is called {', '.join(sorted(unknown))}")
    without = {path.stem for path in LAUNCH.glob("*.ini")} ^ {c[0].split("+")[0] for c in CASES}
    if without:
        sys.exit(f"FAILED: the files of launch and the cases differ: {', '.join(sorted(without))}")
    cases = [c for c in CASES if not names or c[0] in names]
    if not (names or record or mixed or LONG):
        print("skipped case: all but " + " and ".join(SHORT_CASES) + ": CHARL_TEST_LONG is not set")
        cases = [c for c in CASES if c[0] in SHORT_CASES]
    recorded = {}
    if RECORDED.exists():
        recorded = dict(line.split() for line in RECORDED.read_text().splitlines() if line[0] != "#")

    if mixed:
        os.environ.pop("CHARL_DEVICE", None)  # it would put both ranks on one device

    failed = 0
    make_data()
    for case in cases:
        begin = time.monotonic()
        got, why = train(case, mixed)
        if got is None or not (record or got == recorded.get(case[0])):
            failed += 1
            known = "other bits" if case[0] in recorded else "examples.txt has no line of it"
            print(f"FAILED: {case[0]}: {why or known + ': ' + got}", flush=True)
        else:
            recorded[case[0]] = got
            print(f"{case[0]:<18} {got}  {time.monotonic() - begin:.0f} s", flush=True)
    if record:
        lines = [f"{c[0]} {recorded[c[0]]}\n" for c in CASES if c[0] in recorded]
        RECORDED.write_text("# example, SHA-256 of all tensors after 100 steps: written by test_examples.py --record\n" + "".join(lines))
    print(f"{len(cases)} examples, {failed} failed")
    sys.exit(failed > 0 or not cases)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            main()
        finally:
            os.chdir("/")
