#!/usr/bin/python3
"""Training computes the same bits as the version that recorded bits.txt.

A case is a small model trained for 20 steps. Its line in bits.txt holds the SHA-256 of what /model and /optim of its last
checkpoint contain: names, types, shapes and bytes, in sorted order. So a restructuring of the code, of the kernels or of the file
format around them passes, and a change of one bit of one weight does not.

f32 has the same bits on every device that charl supports, so these cases always run. In bf16 and f16 a device with tensor
cores may sum products in another order, and compiling the kernels of both types takes a CPU minutes: those cases run on a CPU, without AMX,
with CHARL_TEST_LONG=1. CHARL_TEST_SHORT=1 runs every third case.

Every third case has optimized kernels, as users have them; the others have none, as most tests: they compile in a sixth of the time. The bits
are those of one recording. CHARL_TEST_LONG=1, --record and NAME: all are optimized.

    test_bits.py [NAME...]             these cases only
    test_bits.py --record [NAME...]    write their lines in bits.txt anew, which a commit that changes bits must explain

The programs are those of $CHARL_BIN_DIR. Exit code 77: h5py is missing.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
LAUNCH = HERE.parent.parent / "launch"
RECORDED = HERE / "bits.txt"
BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", "")).resolve()
LONG = bool(os.environ.pop("CHARL_TEST_LONG", ""))
SHORT = bool(os.environ.pop("CHARL_TEST_SHORT", ""))
os.environ.pop("CHARL_TEST_DATA", None)  # charl warns of variables that it does not know

COMMON = ["train.max_steps=20", "eval.interval=0", "checkpoint.interval=0", "data.val_split=0", "device.share=yes"]


def ini(data, model, *sections, batch=32):
    """A configuration: MODEL is the [model] section, SECTIONS are whole sections."""
    return "\n".join(["[run]\nseed = 7\n[data]\npath = " + data, "[model]\n" + model,
                      f"[train]\nbatch_size = {batch}\nslices = 4", *sections]) + "\n"


def layers(*lines):
    """Sections of layers l1, l2, ... from lines such as "linear out=10 activation=relu"."""
    text = []
    for i, line in enumerate(lines, 1):
        kind, *keys = line.split()
        text += [f"[layer l{i}]", f"type = {kind}"] + [key.replace("=", " = ", 1) for key in keys]
    return "\n".join(text)


def sequential(data, *lines, batch=32):
    return ini(data, "type = sequential", layers(*lines), batch=batch)


MLP = ini("digits.h5", "type = mlp\nhidden = 24")
CNN = ini("digits.h5", "type = cnn\nchannels = 4, 8\nhidden = 16\nbatch_norm = yes")
RESNET = ini("images.h5", "type = resnet\ndepth = 20\nwidth = 4", batch=8)
GPT = ini("text.h5", "type = gpt\nn_layer = 2\nn_head = 4\nn_embd = 32\nblock_size = 16", batch=8)
GPT2 = ["model.bias=yes", "model.mlp=gelu_tanh", "model.dropout=0.1"]
LLAMA = ["model.n_kv_head=2", "model.norm=rms", "model.mlp=swiglu", "model.positions=rotary", "model.tie_weights=no"]
REGRESSION = ini("regression.h5", "type = mlp\nhidden = 16\nactivation = silu")

IMAGES = sequential("images.h5",
                    "conv2d channels=6 kernel=3x5 padding=1x2 activation=gelu",
                    "group_norm groups=3 activation=silu",
                    "max_pool2d kernel=3 stride=2 padding=1",
                    "conv2d channels=8 kernel=3 groups=2 dilation=2 bias=no init=kaiming_normal",
                    "batch_norm activation=relu",
                    "conv_transpose2d channels=8 kernel=3 stride=2 padding=1 output_padding=1 groups=2 activation=tanh",
                    "avg_pool2d kernel=3 stride=2 padding=1",
                    "residual_block channels=8",
                    "residual_block kind=bottleneck channels=16 stride=2 groups=2",
                    "global_avg_pool",
                    "linear out=10", batch=8)
ACTIVATIONS = sequential("digits.h5", "flatten",
                         "linear out=32", "relu", "linear out=32", "leaky_relu slope=0.1", "layer_norm",
                         "linear out=32", "elu alpha=0.5", "linear out=32", "sigmoid", "rms_norm",
                         "linear out=32", "tanh", "linear out=32", "gelu", "layer_norm bias=no activation=gelu_tanh",
                         "linear out=32 bias=no", "gelu_tanh", "linear out=32", "silu", "dropout p=0.1",
                         "linear out=32", "softplus", "linear out=32", "swiglu", "linear out=10")
FUSED = sequential("digits.h5", "flatten",
                   *(f"linear out=32 activation={a}" for a in
                     ("relu", "leaky_relu", "elu", "sigmoid", "tanh", "gelu", "gelu_tanh", "silu", "softplus")),
                   "linear out=10")
RECURRENT = sequential("text.h5", "embedding vocab=256 dim=16", "position_embedding block_size=16",
                       "lstm hidden_size=16 num_layers=2 dropout=0.1", "gru hidden_size=16", "linear out=256", batch=8)
LAST = sequential("regression.h5", "linear out=24 activation=tanh", "linear out=8", "linear out=1")
TRANSFORMERS = sequential("text.h5", "embedding vocab=256 dim=32 init_std=0.1",
                          "transformer_block heads=4 causal=no dropout=0.1",
                          "transformer_block heads=4 kv_heads=2 rotary=yes norm=rms mlp=swiglu bias=no rope_theta=500",
                          "linear out=256 tie=l1", batch=8)

# name, configuration (text, or the name of a file in launch/), overrides
CASES = [
    ("sgd", MLP, ["optimizer.type=sgd", "optimizer.momentum=0", "optimizer.learning_rate=0.05"]),
    ("sgd-nesterov", CNN, ["optimizer.type=sgd", "optimizer.nesterov=yes", "optimizer.learning_rate=0.05"]),
    ("adam", MLP, ["optimizer.type=adam", "optimizer.weight_decay=0.1"]),
    ("adamw", CNN, ["optimizer.type=adamw", "optimizer.groups=*.bias weight_decay=0, conv1.* lr_scale=0.5"]),
    ("lion", MLP, ["optimizer.type=lion", "optimizer.learning_rate=1e-4"]),
    ("rmsprop", MLP, ["optimizer.type=rmsprop", "optimizer.momentum=0.5"]),
    ("adagrad", MLP, ["optimizer.type=adagrad", "optimizer.learning_rate=0.01"]),
    ("lamb", CNN, ["optimizer.type=lamb", "optimizer.decay_1d=no"]),
    ("adafactor", CNN, ["optimizer.type=adafactor"]),
    ("muon", CNN, ["optimizer.type=muon", "optimizer.learning_rate=0.02"]),
    ("ema", MLP, ["train.ema_decay=0.9"]),
    ("linear", MLP, ["scheduler.type=linear", "scheduler.warmup_steps=4"]),
    ("cosine", MLP, ["scheduler.type=cosine", "scheduler.warmup_steps=4", "scheduler.min_lr=1e-5"]),
    ("step", MLP, ["scheduler.type=step", "scheduler.step_size=6", "scheduler.gamma=0.5"]),
    ("multistep", MLP, ["scheduler.type=multistep", "scheduler.milestones=3, 11"]),
    ("poly", MLP, ["scheduler.type=poly", "scheduler.power=2"]),
    ("wsd", MLP, ["scheduler.type=wsd", "scheduler.decay_steps=9", "scheduler.warmup_steps=2"]),
    ("label-smoothing", MLP, ["train.label_smoothing=0.1", "train.grad_clip=0.5", "model.dropout=0.3"]),
    ("mse", REGRESSION, ["train.loss=mse"]),
    ("huber", REGRESSION, ["train.loss=huber"]),
    ("quantile", REGRESSION, ["train.loss=quantile"]),
    ("bce", ini("labels.h5", "type = mlp\nhidden = 16\nactivation = sigmoid"), ["train.loss=bce"]),
    ("dice", ini("labels.h5", "type = mlp\nhidden = 16\nactivation = sigmoid"), ["train.loss=dice"]),
    ("focal", MLP, ["train.loss=focal"]),
    ("mlp", MLP, ["model.hidden=32, 24", "model.batch_norm=yes", "model.activation=gelu", "model.dropout=0.2"]),
    ("cnn-streamed", CNN, ["data.cache=none", "model.dropout=0.2", "train.batch_size=24", "train.slices=3"]),
    ("augment", CNN, ["data.augment=flip, crop:3, rotate:15, cutout:6"]),
    ("mixup", CNN, ["data.augment=flip, mixup:0.4"]),
    ("images", IMAGES, []),
    ("activations", ACTIVATIONS, []),
    ("activations-fused", FUSED, []),
    ("recurrent", RECURRENT, ["data.window=16", "train.grad_clip=1"]),
    ("vectors", LAST, ["train.loss=mse"]),
    ("transformers", TRANSFORMERS, ["data.window=16"]),
    ("resnet", RESNET, ["train.max_steps=5"]),
    ("gpt2", GPT, GPT2),
    ("llama", GPT, LLAMA),
    ("accumulate", GPT, GPT2 + ["train.grad_accum_steps=2", "train.grad_clip=1"]),
    ("recompute", GPT, LLAMA + ["train.recompute=yes"]),
    ("digits.ini", "digits", ["data.path=digits.h5"]),
    ("mnist-mlp.ini", "mnist-mlp", ["data.path=digits.h5"]),
    ("mnist-cnn.ini", "mnist-cnn", ["data.path=digits.h5", "train.batch_size=32"]),
    ("shakespeare.ini", "shakespeare", ["data.path=characters.h5", "model.n_layer=2", "model.n_embd=64"]),
    ("shakespeare-gpu.ini", "shakespeare-gpu",
     ["data.path=characters.h5", "model.n_layer=1", "model.n_embd=48", "model.block_size=64", "train.batch_size=8"]),
    ("cifar10-resnet.ini", "cifar10-resnet",
     ["data.path=images.h5", "model.width=4", "train.batch_size=8", "train.max_steps=5"]),
    ("imagenet-resnet50.ini", "imagenet-resnet50",
     ["data.path=images.h5", "model.width=4", "train.batch_size=8", "train.precision=f32", "train.max_steps=3", "data.augment=flip, crop:4",
      "data.image_size=auto", "optimizer.weight_decay=5e-5"]),
    ("gpt2-124m.ini", "gpt2-124m",
     ["data.path=text.h5", "model.n_layer=1", "model.n_head=2", "model.n_embd=64", "model.block_size=32",
      "train.batch_size=8", "train.precision=f32"]),
]
HALF = [(f"{name}-{precision}", config, overrides + ["train.precision=" + precision])
        for precision in ("bf16", "f16")
        for name, config, overrides in (
            ("mlp", MLP, ["model.dropout=0.2"]), ("cnn", CNN, []), ("images", IMAGES, ["train.max_steps=5"]),
            ("activations", ACTIVATIONS, []), ("recurrent", RECURRENT, ["data.window=16"]),
            ("transformers", TRANSFORMERS, ["data.window=16"]), ("gpt2", GPT, GPT2), ("llama", GPT, LLAMA),
            ("mse", REGRESSION, ["train.loss=mse"]), ("label-smoothing", MLP, ["train.label_smoothing=0.1"]))]
# Their kernels are not optimized.
QUICK = set() if LONG or len(sys.argv) > 1 else {case[0] for i, case in enumerate(CASES) if i % 3}


def charl(*arguments):
    subprocess.run([BIN / "charl", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def make_data():
    """The data sets of all cases, in the current directory."""
    charl("data", "make", "digits", "digits.h5", "-t", 640, "-v", 10)
    charl("data", "make", "regression", "regression.h5", "-t", 640, "-v", 10)

    # 64 images of 3 x 32 x 32 in CIFAR-10's form, and 96 rows with three labels each, of a generator that stays the same.
    n = np.arange(64 * 3073, dtype=np.uint64)
    pixels = ((n * np.uint64(2654435761) >> np.uint64(13)) % np.uint64(256)).astype(np.uint8).reshape(64, 3073)
    pixels[:, 0] = np.arange(64) % 10
    pixels.tofile("images.bin")
    charl("data", "import", "cifar10", "images.bin", "-o", "images.h5")
    with open("labels.csv", "w") as table:
        table.write("a,b,c,d,p,q,r\n")
        for i in range(96):
            x = [(i * k + k * k) % 23 / 8 - 1 for k in (3, 5, 7, 11)]
            row = x + [int(x[0] > 0.2), int(x[1] + x[2] > 0.4), int(x[3] < 0.7)]
            table.write(",".join("%.9g" % v for v in row) + "\n")
    charl("data", "import", "csv", "labels.csv", "--label", "p,q,r", "-o", "labels.h5")

    pathlib.Path("text.txt").write_text("".join(f"{i}\n" for i in range(1, 1501)))
    charl("data", "import", "text", "text.txt", "-o", "text.h5")
    charl("data", "import", "text", "text.txt", "--tokenizer", "chars", "-o", "characters.h5")


def digest(group):
    """SHA-256 over the names, types, shapes and bytes of all datasets of GROUP."""
    sha = hashlib.sha256()
    found = {}
    group.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    for name in sorted(found):
        value = found[name][()]
        sha.update(f"{name} {value.dtype.str} {list(value.shape)}\n".encode())
        sha.update(np.ascontiguousarray(value).tobytes())
    return sha.hexdigest()


def train(case):
    """Its digests of /model and /optim; None and what was printed where training fails."""
    name, config, overrides = case
    path = LAUNCH / (config + ".ini")
    if "\n" in config:
        path = pathlib.Path(name + ".ini")
        path.write_text(config)
    # Paths of a file are relative to it, those of overrides too.
    overrides = [o.replace("data.path=", f"data.path={os.getcwd()}/") for o in overrides]
    environment = {**os.environ, "CHARL_NO_TENSOR_CORES": "1"}
    if name in QUICK:
        environment["CHARL_NO_OPTIMIZER"] = "1"
    done = subprocess.run([BIN / "charl-train", "-q", "-o", os.path.join(os.getcwd(), "run-" + name), path, *COMMON, *overrides],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, env=environment)
    if done.returncode != 0:
        return None, f"exit code {done.returncode}: {done.stdout[-2000:]}"
    with h5py.File(f"run-{name}/last.h5", "r") as f:
        return digest(f["model"]), digest(f["optim"])


def on_cpu():
    """The device that charl-train picks by itself is a CPU: the first line that charl devices prints."""
    lines = subprocess.run([BIN / "charl", "devices"], stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return bool(lines) and lines[0].rstrip().endswith(", cpu")


def main():
    record = "--record" in sys.argv
    names = [a for a in sys.argv[1:] if a != "--record"]
    unknown = set(names) - {c[0] for c in CASES + HALF}
    if unknown:
        sys.exit(f"no case is called {', '.join(sorted(unknown))}")
    cases = CASES[::3] if SHORT else CASES
    if record or names:
        cases = [c for c in CASES + HALF if not names or c[0] in names]
    elif not LONG:
        print("skipped case: bf16 and f16: CHARL_TEST_LONG is not set")
    elif not on_cpu():
        print("skipped case: bf16 and f16: recorded on a CPU, and this device is none")
    else:
        cases = CASES + HALF
    recorded = {}
    if RECORDED.exists():
        recorded = {line.split()[0]: tuple(line.split()[1:]) for line in RECORDED.read_text().splitlines() if line[0] != "#"}

    failed = 0
    make_data()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for (name, _, _), got in zip(cases, pool.map(train, cases)):
            if got[0] is None:
                failed += 1
                print(f"FAILED: {name}: {got[1]}")
            elif record:
                recorded[name] = got
            elif name not in recorded:
                failed += 1
                print(f"FAILED: {name}: not in bits.txt")
            elif got != recorded[name]:
                failed += 1
                what = [part for part, a, b in zip(("/model", "/optim"), got, recorded[name]) if a != b]
                print(f"FAILED: {name}: other bits in {' and '.join(what)}")
    if record:
        lines = [f"{c[0]} {' '.join(recorded[c[0]])}\n" for c in CASES + HALF if c[0] in recorded]
        RECORDED.write_text("# case, SHA-256 of /model, SHA-256 of /optim: written by test_bits.py --record\n" + "".join(lines))
    print(f"{len(cases)} cases, {failed} failed")
    sys.exit(failed > 0 or not cases)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            main()
        finally:
            os.chdir("/")
