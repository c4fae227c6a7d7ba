#!/usr/bin/python3
"""What charl exports as ONNX passes onnx.checker and gives the same numbers in onnxruntime: every
operator that has an ONNX form, at every sample of its table, against its double reference; and
trained models, against `charl predict`.

onnx and onnxruntime come from PyPI, into a virtual environment that is kept beside the kernels that
the tests compile; exit code 77 means that they cannot be had. $CHARL_BIN_DIR holds the programs.
CHARL_TEST_SHORT=1: a few of the models.
"""
import os
import pathlib
import subprocess
import sys

import environment

BIN = environment.BIN
environment.enter("onnxruntime")

# pylint: disable=wrong-import-position
import json
import re
import tempfile

import h5py
import numpy as np
import onnx
import onnxruntime
from PIL import Image

from pages import convnext_page, mobilenet_page, page

TYPES = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int64)": np.int64}


def run(code, *command):
    """Run a program that must end with `code`; returns what it printed."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n"
                 f"{done.stdout}")
    return done.stdout


def session(path):
    """A session of a model that the checker accepts, shapes included."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    if model.ir_version != 8 or [o.version for o in model.opset_import] != [17]:
        sys.exit(f"{path}: IR {model.ir_version}, opset {model.opset_import}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def deviation(got, want):
    """Largest |got - want| / (1 + |want|); NaN and infinity must stand in the same places."""
    odd = ~np.isfinite(want)
    if not np.array_equal(got[odd], want[odd].astype(got.dtype), equal_nan=True):
        return np.inf
    error = np.abs(got.astype(np.float64) - want)[~odd] / (1 + np.abs(want[~odd]))
    return error.max() if error.size else 0.0


def check_sample(folder, stem):
    s = session(folder / f"{stem}.onnx")
    feed = {}
    for value in s.get_inputs():
        shape = [-1 if d == "N" else d for d in value.shape]
        feed[value.name] = np.fromfile(folder / f"{stem}.{value.name}",
                                       TYPES[value.type]).reshape(shape)
    want = np.fromfile(folder / f"{stem}.out", np.float64)
    got = s.run(None, feed)[0]
    return deviation(got.flatten(), want) if got.size == want.size else np.inf


def check_samples(folder):
    said = run(0, BIN.parent.parent / "tests" / "interop" / "onnx_samples", folder).splitlines()
    stems = [line.split()[1] for line in said if line.startswith("model ")]
    worst = {stem: check_sample(folder, stem) for stem in stems}
    bad = [f"{stem}: {d:.1e}" for stem, d in worst.items() if not d < 1e-4]
    operators = {stem.rsplit("-", 1)[0] for stem in stems}
    print(f"{len(operators)} operators, {len(stems)} samples, "
          f"{len(said) - len(stems)} refused, largest deviation {max(worst.values()):.1e}")
    print("\n".join(line for line in said if line.startswith("refused ")))
    if bad or len(operators) < 25:
        sys.exit("\n".join(bad) or "so few operators?")


HEAD = """[run]
output_dir = {output}
resume = never
[data]
path = {data}
[train]
batch_size = 16
max_steps = 4
[optimizer]
learning_rate = 1e-2
[device]
share = yes
"""
LAYERS = """[model]
type = sequential
[layer a]
type = conv2d
channels = 6
kernel = 5x3
stride = 2x1
padding = 0x2
activation = leaky_relu
[layer b]
type = batch_norm
activation = silu
[layer b2]
type = elu
alpha = 0.5
[layer c]
type = conv2d
channels = 12
kernel = 3
dilation = 2
groups = 3
bias = no
activation = gelu
[layer d]
type = max_pool2d
kernel = 3
stride = 2
padding = 1
[layer e]
type = conv2d
channels = 12
kernel = 3
groups = 12
activation = gelu_tanh
[layer f]
type = avg_pool2d
kernel = 2
padding = 1
[layer g]
type = dropout
[layer h]
type = global_avg_pool
[layer i]
type = layer_norm
activation = tanh
[layer j]
type = linear
out = 9
activation = softplus
[layer k]
type = batch_norm
activation = sigmoid
[layer l]
type = linear
out = 10
"""
TOKENS = """[layer embed]
type = embedding
vocab = 256
dim = 16
[layer place]
type = position_embedding
block_size = 32
[layer hidden]
type = linear
out = 16
activation = gelu
[layer norm]
type = layer_norm
[layer head]
type = linear
out = 256
tie = embed
bias = no
"""
SEQUENCE = """[layer embed]
type = embedding
vocab = 256
dim = 12
[layer memory]
type = {}
hidden_size = 10
num_layers = 2
dropout = 0.1
[layer head]
type = linear
out = 256
"""
UPSAMPLE = """[layer down]
type = conv2d
channels = 6
kernel = 3
stride = 2
[layer norm]
type = group_norm
groups = 2
activation = relu
[layer up]
type = conv_transpose2d
channels = 4
kernel = 3
stride = 2
padding = 1
output_padding = 1
[layer pool]
type = max_pool2d
kernel = 4
[layer flat]
type = flatten
[layer head]
type = linear
out = 10
"""
GRAPH = """[block encoder]
width =
[block encoder.norm]
type = layer_norm
[block encoder.qkv]
type = linear
out = 3 * $width
[block encoder.attention]
type = attention
heads = 2
[block encoder.proj]
type = linear
out = $width
[block encoder.sum]
type = add
input = proj, input
[layer in]
type = conv2d
channels = 4
kernel = 3
activation = relu
[layer down]
type = max_pool2d
kernel = 4
[layer smooth]
type = upsample
factor = 2
mode = bilinear
[layer large]
type = upsample
factor = 2x2
[layer gate]
type = sigmoid
input = in
[layer gated]
type = multiply
input = large, gate
[layer skip]
type = concat
input = gated, in
[layer patches]
type = conv2d
channels = 12
kernel = 4
stride = 4
padding = 0
[layer rows]
type = reshape
shape = 12, -1
[layer time]
type = conv1d
channels = 12
kernel = 3
causal = yes
[layer pool]
type = max_pool1d
kernel = 3
stride = 1
padding = 1
[layer sequence]
type = permute
order = 2, 1
[layer class]
type = class_token
[layer place]
type = position_embedding
block_size = 50
[layer encoder]
type = encoder
width = 12
repeat = 2
[layer first]
type = slice
length = 1
[layer flat]
type = flatten
[layer mean]
type = mean
input = encoder
[layer largest]
type = max
input = encoder
[layer both]
type = concat
input = flat, mean, largest
[layer head]
type = linear
out = 10
"""
VOLUMES = """[model]
type = sequential
[layer in]
type = conv3d
channels = 4
kernel = 3x3x2
padding = 1x1x0
[layer bn]
type = batch_norm
activation = relu
[layer down]
type = max_pool3d
kernel = 2
[layer deep]
type = conv3d
channels = 6
kernel = 3
stride = 1x2x1
activation = silu
[layer fine]
type = conv3d
channels = 6
kernel = 2
stride = 2x1x1
dilation = 1x2x1
padding = 1
groups = 2
[layer up]
type = conv_transpose3d
channels = 4
kernel = 3
stride = 2
padding = 1
output_padding = 1x0x1
[layer smooth]
type = upsample
factor = 1x2
depth = 2
mode = trilinear
[layer wide]
type = conv_transpose3d
channels = 3
kernel = 2x3x2
bias = no
[layer mean]
type = avg_pool3d
kernel = 2x2x1
[layer all]
type = global_avg_pool
[layer head]
type = linear
out = 4
"""
GPT = """[model]
type = gpt
n_layer = 2
n_head = 4
n_embd = 16
block_size = 24
dropout = 0.1
"""
DIGITS, NUMBERS, SCALED, TEXT, TEXTS, VOXELS, PAIRS, MASKS, BALLS = (
    f"{name}.h5" for name in ("digits", "numbers", "scaled", "text", "texts", "voxels", "pairs", "masks", "balls"))
UNET = page("unet", *(f"layer {name}.channels={n}" for name, n in (
    ("inc", 4), ("down1", 6), ("down2", 8), ("down3", 10), ("up1", 8), ("up2", 6), ("up3", 4))))
VIT = page("vit", "layer patch_embed.proj.channels=16", "layer patches.shape=16, -1", "layer blocks.width=16", "layer blocks.heads=2",
           "layer blocks.repeat=2")
BERT = page("bert", *(f"layer {name}={n}" for name, n in (
    ("bert.embeddings.word_embeddings.dim", 16), ("bert.encoder.layer.width", 16), ("bert.encoder.layer.heads", 2),
    ("bert.encoder.layer.repeat", 2), ("cls.predictions.transform.dense.out", 16))))
# A classifier of texts that are padded: BERT's, and one that reads the mean and the end.
at = BERT.index("[layer cls.predictions.transform.dense]")
CLASSIFIER = BERT[:at] + """[layer first]
type = slice
length = 1
[layer flat]
type = flatten
[layer bert.pooler.dense]
type = linear
out = 16
activation = tanh
[layer classifier]
type = linear
out = 3""".splitlines()
MEANS = """[model]
type = sequential
[layer embed]
type = embedding
vocab = 257
dim = 12
[layer memory]
type = gru
hidden_size = 12
[layer last]
type = slice
start = -1
[layer flat]
type = flatten
[layer mean]
type = mean
input = memory
[layer both]
type = concat
input = flat, mean
[layer head]
type = linear
out = 3
"""
MODELS = {
    "mlp": (DIGITS, "[model]\ntype = mlp\nhidden = 24, 12\nactivation = silu\ndropout = 0.1\n", []),
    "cnn": (DIGITS, "[model]\ntype = cnn\nchannels = 4, 8\nhidden = 16\nbatch_norm = yes\n", []),
    "layers": (DIGITS, LAYERS, []),
    "given mean": (DIGITS, "[model]\ntype = mlp\nhidden = 8\n", ["data.normalize=120/64", "train.ema_decay=0.5"]),
    "resnet": (DIGITS, "[model]\ntype = resnet\ndepth = 20\nwidth = 4\n", []),
    "regression": (NUMBERS, "[model]\ntype = mlp\nhidden = 16\nactivation = tanh\n",
                   ["train.loss=mse"]),
    "scaled": (SCALED, "[model]\ntype = mlp\nhidden = 16\n", ["train.loss=mse"]),
    "tokens": (TEXT, TOKENS, ["data.window=24"]),
    "lstm": (TEXT, SEQUENCE.format("lstm"), ["data.window=24"]),
    "gru": (TEXT, SEQUENCE.format("gru"), ["data.window=24"]),
    "upsample": (DIGITS, UPSAMPLE, []),
    "graph": (DIGITS, GRAPH, []),
    "volumes": (VOXELS, VOLUMES, []),
    **{name: (data, "[model]\n" + "\n".join(lines) + "\n", more) for name, lines, data, more in (
        ("mobilenet", mobilenet_page(4), DIGITS, []), ("convnext", convnext_page((8, 12, 16, 24), (2, 2, 3, 2)), DIGITS, []),
        ("tcn", page("tcn"), TEXT, ["data.window=24"]), ("autoencoder", page("autoencoder"), PAIRS, ["train.loss=mse"]),
        ("vit", VIT, DIGITS, []), ("unet", UNET, MASKS, ["train.loss=bce"]),
        ("unet 3-D", [line.replace("2d", "3d") for line in UNET], BALLS, ["train.loss=dice"]), ("bert", BERT, TEXT, ["data.window=24"]),
        ("bert of texts", CLASSIFIER, TEXTS, []))},
    "gru of texts": (TEXTS, MEANS, []),
    **{f"resnet {depth}": (DIGITS, f"[model]\ntype = resnet\ndepth = {depth}\nwidth = 4\n", ["train.max_steps=1"]) for depth in (50, 101, 152)},
    "gpt": (TEXT, GPT + "bias = yes\n", []),
    "gpt llama": (TEXT, GPT + "positions = rotary\nnorm = rms\nmlp = swiglu\n", []),
    "gpt rotary": (TEXT, GPT + "positions = rotary\nn_kv_head = 2\ntie_weights = no\n", []),
}
SHORT = ["mlp", "layers", "gpt llama"]


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_predictions(output, data):
    """Deviation from what charl predicts of every validation row."""
    if data.name in (MASKS, BALLS):
        run(0, BIN / "charl", "predict", output / "last.h5", "-o", output / "p.h5")
        with h5py.File(data) as f, h5py.File(output / "p.h5") as p:
            got = run_model(output / "m.onnx", f["val/x"][...]).astype(np.float64)
            return deviation(1 / (1 + np.exp(-got.reshape(len(got), -1))), p["output"][...].reshape(len(got), -1).astype(np.float64))
    said = run(0, BIN / "charl", "predict", output / "last.h5", "--format", "jsonl",
               *([] if data.name in (NUMBERS, SCALED, PAIRS) else ["--all"]))
    rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    with h5py.File(data) as f:
        got = run_model(output / "m.onnx", f["val/x"][...])
    if data.name in (NUMBERS, SCALED, PAIRS):
        return deviation(got.flatten(), np.array([r["prediction"] for r in rows]).flatten())
    wanted = (r["probabilities"] for r in rows)
    return deviation(softmax(got), np.array([list(p.values()) if isinstance(p, dict) else p for p in wanted]))


def by_loss(output, data, config, settings):
    """Deviation from the loss that charl has on all windows of the validation part."""
    said = run(0, BIN / "charl", "eval", config, output / "last.h5", *settings)
    loss = float(re.search(r"\bloss=([0-9.e+-]+)", said).group(1))
    window = 24
    with h5py.File(data) as f:
        tokens = f["val/tokens"][...].astype(np.int64)
    n = (len(tokens) - 1) // window
    x, y = tokens[:n * window].reshape(n, window), tokens[1:n * window + 1].reshape(n, window)
    p = np.take_along_axis(softmax(run_model(output / "m.onnx", x)), y[:, :, None], 2)
    return abs(-np.log(p).mean() - loss) / loss


def run_model(path, x):
    """All rows at once, then in batches of 3 and 1: the extent of the batch is free."""
    s = session(path)
    schema = json.loads(s.get_modelmeta().custom_metadata_map["charl.schema"])
    if [None, *schema["x_shape"]][1:] != s.get_inputs()[0].shape[1:] or len(schema["mean"]) != len(schema["std"]):
        sys.exit(f"{path}: charl.schema does not describe the input: {schema}")
    name, whole = s.get_inputs()[0].name, None
    if s.get_inputs()[0].type == "tensor(int64)" and x.dtype == np.uint16:
        x = np.where(x == 65535, -1, x.astype(np.int64))  # padding
    if x.dtype not in (np.uint8, np.int64):
        x = x.astype(np.float32)
    whole = s.run(["output"], {name: x})[0]
    for rows in (3, 1):
        part = s.run(["output"], {name: x[:rows]})[0]
        if deviation(part, whole[:rows].astype(np.float64)) > 1e-5:
            sys.exit(f"{path}: a batch of {rows} gives other numbers")
    return whole


def check_model(folder, name):
    data, model, settings = MODELS[name]
    data, output, config = folder / data, folder / name, folder / f"{name}.ini"
    config.write_text(HEAD.format(output=output, data=data) + model)
    run(0, BIN / "charl-train", "-q", config, *settings)
    run(0, BIN / "charl", "checkpoint", "export", output / "last.h5", "-o", output / "m.onnx")
    worst = by_loss(output, data, config, settings) if data.name == TEXT else by_predictions(output, data)
    print(f"{name:<12} largest deviation {worst:.1e}", flush=True)
    return worst < 1e-4


def make_data(folder):
    run(0, BIN / "charl", "data", "make", "digits", folder / DIGITS, "--train", 64, "--val", 40)
    run(0, BIN / "charl", "data", "make", "regression", folder / NUMBERS, "--train", 64, "--val", 40)
    rows = np.random.RandomState(1).standard_normal((80, 3))
    np.savetxt(folder / "scaled.csv", np.c_[rows, 2e5 + 3e4 * rows[:, 0]], delimiter=",")
    run(0, BIN / "charl", "data", "import", "csv", folder / "scaled.csv", "--regression", "--val-split", "0.5", "-o", folder / SCALED)
    with h5py.File(folder / VOXELS, "w") as f:
        f.attrs["charl_format"], f.attrs["charl_version"], f.attrs["kind"] = np.bytes_("dataset"), 1, np.bytes_("images")
        for split in ("train", "val"):
            f[f"{split}/x"] = np.random.RandomState(2).standard_normal((64, 2, 6, 7, 8)).astype("f4")
            f[f"{split}/y"] = np.arange(64, dtype="i4") % 4
    with h5py.File(folder / PAIRS, "w") as f:
        f.attrs["charl_format"], f.attrs["charl_version"], f.attrs["kind"] = np.bytes_("dataset"), 1, np.bytes_("images")
        for split in ("train", "val"):
            f[f"{split}/x"] = np.random.RandomState(3).standard_normal((64, 1, 32, 32)).astype("f4")
            f[f"{split}/y"] = f[f"{split}/x"][...].reshape(64, -1)
    for name, shape in ((MASKS, (16, 24)), (BALLS, (8, 16, 16))):
        with h5py.File(folder / name, "w") as f:
            f.attrs["charl_format"], f.attrs["charl_version"], f.attrs["kind"] = np.bytes_("dataset"), 1, np.bytes_("images")
            for split in ("train", "val"):
                f[f"{split}/x"] = np.random.RandomState(4).randint(0, 256, (64, 1, *shape)).astype("u1")
                f[f"{split}/y"] = (f[f"{split}/x"][...] > 128).reshape(64, -1).astype("f4")
    draw = np.random.RandomState(5)
    (folder / "texts.csv").write_text("text,label\n" + "".join(
        f"{'ab' * n}{'c' * (i % 3)},{i % 3}\n" for i, n in enumerate(draw.randint(1, 11, 96))))
    run(0, BIN / "charl", "data", "import", "text-classes", folder / "texts.csv", "--window", "24", "--val-split", "0.4", "-o", folder / TEXTS)
    (folder / "text.txt").write_text("\n".join(str(i) for i in range(700)))
    run(0, BIN / "charl", "data", "import", "text", folder / "text.txt", "-o", folder / TEXT,
        "--val-split", "0.2")


def without_lock(path):
    """The model without the hash of run.lock's line, which a checkpoint of an older version has not."""
    model = onnx.load(path)
    kept = [p for p in model.metadata_props if p.key != "charl.lock"]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    return model.SerializeToString()


def check_commands(folder):
    """The key writes the file that the command writes; what cannot be exported is said."""
    config, moved = folder / "mlp.ini", folder / "moved.h5"
    run(0, BIN / "charl-train", "-q", config, "-o", folder / "key", "checkpoint.export=onnx")
    for name in ("last.onnx", "best.onnx"):
        onnx.checker.check_model(onnx.load(folder / "key" / name))
    last, again = folder / "key" / "last.h5", folder / "again.onnx"
    run(0, BIN / "charl", "checkpoint", "export", last, "-o", again)
    if again.read_bytes() != (folder / "key" / "last.onnx").read_bytes():
        sys.exit("checkpoint.export and charl checkpoint export write other files")
    (folder / DIGITS).rename(moved)
    old = folder / "key" / "checkpoints" / "v1.h5"
    run(0, BIN.parent.parent / "tests" / "cli" / "make_checkpoint", "--version-1", last, old)
    said = run(5, BIN / "charl", "checkpoint", "export", old, "-o", again)
    if DIGITS not in said or "data.path" not in said:
        sys.exit(f"data that are gone: {said}")
    for checkpoint, settings in ((last, []), (old, [f"data.path={moved}"])):
        again.unlink(missing_ok=True)
        run(0, BIN / "charl", "checkpoint", "export", checkpoint, *settings, "-o", again)
        if without_lock(again) != without_lock(folder / "key" / "last.onnx"):
            sys.exit(f"{checkpoint} without its data gives another model")
    said = run(2, BIN / "charl", "checkpoint", "export", last, "data.normalize=1/2", "-o", again)
    if "data.normalize is not what" not in said:
        sys.exit(f"other numbers: {said}")


def recipe():
    """prepare(path, schema), as docs/exporting.md has it."""
    lines = (pathlib.Path(__file__).parents[2] / "docs" / "exporting.md").read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line == "    import numpy")
    end = next(i for i in range(first, len(lines)) if lines[i] and not lines[i].startswith("    "))
    names = {}
    exec("\n".join(line[4:] for line in lines[first:end]), names)  # pylint: disable=exec-used
    return names["prepare"]


def check_pictures(folder):
    """Pictures that Pillow prepares as the docs say give what charl predicts of the files, and its pixels to one level."""
    prepare, random = recipe(), np.random.RandomState(5)
    pictures = folder / "pictures"
    for i, (w, h) in enumerate(((40, 30), (31, 57), (12, 9), (24, 16), (100, 21), (64, 64))):
        small = Image.fromarray(random.randint(0, 256, (5, 7, 3)).astype(np.uint8))
        (pictures / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        small.resize((w, h), Image.BICUBIC).save(pictures / "ab"[i % 2] / f"{i}.{'png' if i < 4 else 'jpg'}")
    deep = np.asarray(small.resize((20, 20), Image.BICUBIC).convert("L")).astype(np.uint16) * 257
    Image.fromarray(deep).save(pictures / "a" / "deep.png")  # 16 bits
    files = sorted(pictures.glob("*/*"))
    (folder / "pictures.ini").write_text("[model]\ntype = mlp\nhidden = 8\n[train]\nbatch_size = 2\nmax_steps = 3\n"
                                         "[optimizer]\nlearning_rate = 0.01\n[device]\nshare = yes\n")
    for fit, channels in (("crop", 3), ("stretch", 3), ("pad", 1)):
        data, out = folder / f"{fit}.h5", folder / fit
        run(0, BIN / "charl", "data", "import", "images", pictures, "--size", "24x16", "--fit", fit, "--channels", channels, "-o", data)
        run(0, BIN / "charl-train", "-q", folder / "pictures.ini", f"data.path={data}", "-o", out)
        run(0, BIN / "charl", "checkpoint", "export", out / "last.h5", "-o", out / "m.onnx")
        s = session(out / "m.onnx")
        meta = s.get_modelmeta().custom_metadata_map
        shape = f"u8 [N, {channels}, 24, 16], {'RGB' if channels == 3 else 'gray'}"
        if not meta["charl.input"].startswith(shape) or "Image.BILINEAR" not in meta["charl.input"]:
            sys.exit(f"{fit}: charl.input is {meta['charl.input']}")
        x = np.concatenate([prepare(f, json.loads(meta["charl.schema"])) for f in files])
        with h5py.File(data) as f:
            rows = f["train/x"][...].astype(int)
        far = max(np.abs(rows - p.astype(int)).reshape(len(rows), -1).max(1).min() for p in x)
        said = run(0, BIN / "charl", "predict", out / "last.h5", "--format", "jsonl", "--all", *files)
        wanted = [json.loads(line)["probabilities"] for line in said.splitlines() if line.startswith("{")]
        worst = deviation(softmax(s.run(["output"], {"input": x})[0]),
                          np.array([list(p.values()) if isinstance(p, dict) else p for p in wanted]))
        print(f"pictures, {fit}: {far} levels, probabilities {worst:.1e}")
        if far > 1 or not worst < 0.02:
            sys.exit(f"{fit}: what Pillow prepares is {far} levels from charl's pixels, its probabilities {worst}")


def main():
    with tempfile.TemporaryDirectory(prefix="charl-onnx-") as folder:
        folder = pathlib.Path(folder)
        check_samples(folder)
        make_data(folder)
        names = SHORT if os.environ.pop("CHARL_TEST_SHORT", "") == "1" else MODELS
        bad = [name for name in names if not check_model(folder, name)]
        if bad:
            sys.exit(f"deviation above 1e-4: {', '.join(bad)}")
        check_commands(folder)
        check_pictures(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
