#!/usr/bin/python3
"""Graphs give the same numbers as PyTorch: the configurations of docs/models, with small widths.

vit: timm's names, written with torch.nn, and the logits of transformers' ViT. unet: torch.nn. bert: transformers' BERT itself, with and
without a causal mask, as a masked language model, and as a classifier of padded texts. layers: what these do not use. Parameter counts of the usual sizes are timm's and the papers'.

How they are compared: pytorch_case.py. transformers comes from PyPI, beside the distribution's PyTorch; exit code 77 means that either
is missing. CHARL_TEST_SHORT=1: vit and bert only.
"""
import importlib.util
import pathlib
import re
import sys
import tempfile

import environment

if importlib.util.find_spec("torch") is None:
    print("skipped: no PyTorch")
    sys.exit(77)
environment.enter("transformers")

# pylint: disable=wrong-import-position
import transformers

from pages import count, page, report_count
from pytorch_case import (BIN, SHORT, STEPS, Case, compare_cases, compare_ranks, h5py, load_model, nn, np, read_checkpoint, run,
                          torch)
from vit_module import VitModule

functional = nn.functional
WIDTH, WINDOW, VOCAB = 32, 24, 257  # the width of vit and bert


# vit

class Vit(Case):
    batch = 32
    depth, heads = 2, 4

    def model_ini(self):
        return page("vit", f"layer patch_embed.proj.channels={WIDTH}", f"layer patches.shape={WIDTH}, -1",
                    f"layer blocks.width={WIDTH}", f"layer blocks.heads={self.heads}", f"layer blocks.repeat={self.depth}")

    def build_model(self, x, classes):
        return VitModule(x.shape[1], classes, WIDTH, self.depth, self.heads)

    def comparable(self, name, array):
        """A bias of the keys adds the same to all scores of a query, and softmax takes it away again."""
        return np.delete(array, range(WIDTH, 2 * WIDTH)) if name.endswith("attn.qkv.bias") else array


def vit_of_transformers(case, arrays, x):
    """The logits of ViTForImageClassification with these weights."""
    config = transformers.ViTConfig(
        hidden_size=WIDTH, num_hidden_layers=case.depth, num_attention_heads=case.heads, intermediate_size=4 * WIDTH,
        image_size=28, patch_size=4, num_channels=1, hidden_act="gelu", layer_norm_eps=1e-6, num_labels=10)
    model = transformers.ViTForImageClassification(config).double().eval()
    w = {k: torch.tensor(v) for k, v in arrays.items()}
    theirs = {"vit.embeddings.cls_token": w["cls_token.weight"].view(1, 1, -1),
              "vit.embeddings.position_embeddings": w["pos_embed.weight"][None],
              "vit.embeddings.patch_embeddings.projection.weight": w["patch_embed.proj.weight"],
              "vit.embeddings.patch_embeddings.projection.bias": w["patch_embed.proj.bias"]}
    names = {"norm1": "layernorm_before", "norm2": "layernorm_after", "attn.proj": "attention.output.dense",
             "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense"}
    for kind in ("weight", "bias"):
        theirs[f"vit.layernorm.{kind}"] = w[f"norm.{kind}"]
        theirs[f"classifier.{kind}"] = w[f"head.{kind}"]
        for i in range(case.depth):
            to = f"vit.encoder.layer.{i}"
            for own, other in names.items():
                theirs[f"{to}.{other}.{kind}"] = w[f"blocks.{i}.{own}.{kind}"]
            for part, value in zip(("query", "key", "value"), w[f"blocks.{i}.attn.qkv.{kind}"].chunk(3)):
                theirs[f"{to}.attention.attention.{part}.{kind}"] = value
    model.load_state_dict(theirs, strict=True)
    with torch.no_grad():
        return model(x).logits


def check_vit(case, output, data):
    """charl's weights in transformers: the logits that PyTorch's model above has, which was compared with charl."""
    arrays = read_checkpoint(output, STEPS)["model"]
    x, y = case.read_data(data, "val", torch.float64)
    model = case.build_model(x, case.classes(y)).double().eval()
    load_model(model, arrays)
    with torch.no_grad():
        want = model(x)
    error = float((vit_of_transformers(case, arrays, x) - want).norm() / want.norm())
    print(f"vit of transformers: logits deviate by {error:.1e}")
    return int(not error < 1e-6)


# unet

class Double(nn.Module):
    def __init__(self, before, channels):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x):
        return self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())).relu()


class Down(nn.Module):
    def __init__(self, before, channels):
        super().__init__()
        self.conv = Double(before, channels)

    def forward(self, x):
        return self.conv(functional.max_pool2d(x, 2))


class Up(nn.Module):
    def __init__(self, before, channels):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(before, channels, 2, 2), Double(2 * channels, channels)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class UnetModule(nn.Module):
    """Two levels, and the mean over the image as the answer."""

    def __init__(self, channels, classes):
        super().__init__()
        self.inc, self.down1, self.down2 = Double(channels, 4), Down(4, 8), Down(8, 16)
        self.up1, self.up2, self.outc = Up(16, 8), Up(8, 4), nn.Conv2d(4, classes, 1)

    def forward(self, x):
        a = self.inc(x)
        b = self.down1(a)
        return self.outc(self.up2(self.up1(self.down2(b), b), a)).mean((2, 3))


class Unet(Case):
    """Batch norm and ReLU amplify a rounding from step to step: see test_pytorch_images.py."""

    batch = 32
    loss_tolerance = 1e-4
    gradient_tolerance = 0.1
    parameter_tolerance = {"sgd": 1e-4}

    def comparable(self, name, array):
        """The biases of batch norm start at 0 and are 1e-4 after 20 steps: rounding is 4e-3 of that, in PyTorch's f32 5e-3. Compared is
        how far the mean of a channel, whose deviation is about 1, is off."""
        return array + 1 if re.search(r"bn\d\.bias$", name) and "/" not in name else array

    def model_ini(self):
        lines = page("unet")
        blocks = lines[:lines.index("[layer inc]")]
        return blocks + """[layer inc]
type = double
channels = 4
[layer down1]
type = down
channels = 8
[layer down2]
type = down
channels = 16
[layer up1]
type = up
channels = 8
input = down2, down1
[layer up2]
type = up
channels = 4
input = up1, inc
[layer outc]
type = conv2d
channels = 10
kernel = 1
[layer mean]
type = global_avg_pool""".splitlines()

    def build_model(self, x, classes):
        return UnetModule(x.shape[1], classes)


# bert

class NoSegments(nn.Module):
    def forward(self, _):
        return 0.0


def build_bert(causal):
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=4 * WIDTH,
        max_position_embeddings=WINDOW, type_vocab_size=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        is_decoder=causal)
    inner = (transformers.BertLMHeadModel if causal else transformers.BertForMaskedLM)(config)
    inner.bert.embeddings.token_type_embeddings = NoSegments()

    class Bert(type(inner)):
        """Logits alone; a tied weight and a shared bias under one name, as parameters have them."""

        def forward(self, tokens):  # pylint: disable=arguments-differ
            return super().forward(tokens).logits

        def state_dict(self, *_, **__):
            return {k: v.detach() for k, v in self.named_parameters()}

        def load_state_dict(self, arrays, strict=True):  # pylint: disable=arguments-differ
            own = dict(self.named_parameters())
            if strict and {k: v.shape for k, v in own.items()} != {k: v.shape for k, v in arrays.items()}:
                sys.exit(f"bert: charl has {sorted(arrays)}, transformers {sorted(own)}")
            with torch.no_grad():
                for k, v in own.items():
                    v.copy_(arrays[k])

    inner.__class__ = Bert
    return inner


class Encoder(Case):
    batch, slices = 8, 8
    loss_tolerance = 1e-4

    def __init__(self, causal, *common, **more):
        super().__init__("bert causal" if causal else "bert", *common, **more)
        self.causal = causal

    def model_ini(self):
        return page("bert", "block bert.dropout=0", "layer bert.embeddings.dropout.p=0",
                    f"layer bert.embeddings.word_embeddings.dim={WIDTH}",
                    f"layer bert.embeddings.position_embeddings.block_size={WINDOW}",
                    f"layer bert.encoder.layer.width={WIDTH}",
                    f"layer bert.encoder.layer.causal={'yes' if self.causal else 'no'}",
                    f"layer cls.predictions.transform.dense.out={WIDTH}")

    def build_model(self, x, classes):
        return build_bert(self.causal)

    def comparable(self, name, array):
        """As in Vit."""
        return array[:0] if name.endswith("attention.self.key.bias") else array

    def classes(self, y):
        return VOCAB

    def read_data(self, path, split, dtype):
        with h5py.File(path, "r") as f:
            tokens = f[f"{split}/tokens"][...].astype(np.int64)
        n = (len(tokens) - 1) // WINDOW
        cut = n * WINDOW
        return (torch.tensor(tokens[:cut].reshape(n, WINDOW)), torch.tensor(tokens[1:cut + 1].reshape(n, WINDOW)))

    def ini(self, data, output):
        return super().ini(data, output).replace("shuffle = no", f"shuffle = no\nwindow = {WINDOW}")


def philox(position, step, key):
    """The words of the blocks at these positions: Philox4x32-10 of src/base/numeric/rng.h. u64 [n, 4]."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [position & low, position >> half, np.full_like(position, step & 0xFFFFFFFF), np.full_like(position, step >> 32)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [p1 >> half ^ c[1] ^ np.uint64(k[0]), p1 & low, p0 >> half ^ c[3] ^ np.uint64(k[1]), p0 & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, -1)


def mask_tokens(row, count, mask, seed, step):
    """What the operator mask_tokens makes of a row of tokens, and the labels: -100 where nothing is predicted."""
    z = (np.arange(len(row), dtype=np.uint64) << np.uint64(32) | row.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    place = (z ^ z >> np.uint64(31)).sum(dtype=np.uint64) + np.arange(len(row), dtype=np.uint64)
    name = 0xCBF29CE484222325
    for byte in b"mask_tokens":
        name = (name ^ byte) * 0x100000001B3 % 2**64
    word = philox(place, step, name ^ seed)
    chosen = np.argsort(word[:, 0], kind="stable")[:count]
    x, y = row.copy(), np.full_like(row, -100)
    y[chosen] = row[chosen]
    by = word[chosen, 1]
    x[chosen] = np.where(by < 3435973837, mask, np.where(by < 3865470566, word[chosen, 2].astype(np.int64) % mask, row[chosen]))
    return x, y


class Masked(Encoder):
    """The masks are charl's own: a function of seed, step and tokens, in evaluations of the tokens."""

    def __init__(self, *common, **more):
        super().__init__(False, *common, **more)
        self.name = "bert masked"

    def read_data(self, path, split, dtype):
        x, _ = super().read_data(path, split, dtype)
        rows = [mask_tokens(row, 4, VOCAB - 1, *((7, i // self.batch) if split == "train" else (0, 0)))
                for i, row in enumerate(x.numpy())]
        return tuple(torch.tensor(np.stack(part)) for part in zip(*rows))

    def validation(self, logits, y):
        keep = y.flatten() >= 0
        return super().validation(logits[keep], y.flatten()[keep])

    def ini(self, data, output):
        return super().ini(data, output).replace("shuffle = no", "shuffle = no\nmasked = 0.15")


class Classifier(Encoder):
    """BertForSequenceClassification, to which a mask tells what is padding."""

    def __init__(self, *common, **more):
        super().__init__(False, *common, **more)
        self.name = "bert of texts"

    def model_ini(self):
        lines = super().model_ini()
        return lines[:lines.index("[layer cls.predictions.transform.dense]")] + f"""[layer first]
type = slice
length = 1
[layer flat]
type = flatten
[layer bert.pooler.dense]
type = linear
out = {WIDTH}
init_std = 0.02
activation = tanh
[layer classifier]
type = linear
out = 3
init_std = 0.02""".splitlines()

    def build_model(self, x, classes):
        config = transformers.BertConfig(
            vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=4 * WIDTH,
            max_position_embeddings=WINDOW, type_vocab_size=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            num_labels=3)
        inner = transformers.BertForSequenceClassification(config)
        inner.bert.embeddings.token_type_embeddings = NoSegments()

        class Bert(type(inner)):
            def forward(self, tokens):  # pylint: disable=arguments-differ
                return super().forward(tokens.clamp(min=0), attention_mask=(tokens >= 0).long()).logits

        inner.__class__ = Bert
        return inner

    def classes(self, y):
        return 3

    def read_data(self, path, split, dtype):
        with h5py.File(path, "r") as f:
            x = f[f"{split}/x"][...]
            tokens = np.where(x == np.iinfo(x.dtype).max, -1, x.astype(np.int64))
            return torch.tensor(tokens), torch.tensor(f[f"{split}/y"][...].astype(np.int64))

    def ini(self, data, output):
        return super().ini(data, output).replace(f"window = {WINDOW}\n", "")


def write_texts(path):
    """Texts of 1 to 2 WINDOW letters; the class is what the number of a's leaves when it is divided by 3."""
    random = np.random.default_rng(1)
    with open(path, "w", encoding="utf-8") as f:
        print("text,label", file=f)
        for _ in range(240):
            text = "".join(random.choice(list("abc ")) for _ in range(random.integers(1, 2 * WINDOW))).strip() or "a"
            print(f"{text},{text.count('a') % 3}", file=f)


# other layers

class LayersModule(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.a = nn.Conv1d(28, 12, 5, dilation=2, groups=4, bias=False)
        self.n = nn.BatchNorm1d(12)
        self.b = nn.Conv1d(12, 12, 3, stride=2, padding=1, bias=False)
        self.gate, self.up, self.head = nn.Linear(12, 12), nn.Conv2d(1, 2, 3, padding=1), nn.Linear(24 + 2 * 30, classes)

    def forward(self, x):
        rows = x[:, 0]
        a = self.n(self.a(functional.pad(rows, (8, 0)))).tanh()
        b = self.b(functional.max_pool1d(a, 3, 2, 1)).transpose(1, 2)
        gated = b * self.gate(b).sigmoid()
        both = torch.cat([gated.mean(1), gated.amax(1)], 1)
        small = functional.avg_pool2d(functional.avg_pool1d(rows, 2)[:, None], 4)
        large = functional.interpolate(self.up(small), scale_factor=(2, 3), mode="bilinear", align_corners=False)
        nearest = functional.interpolate(large, scale_factor=2)
        return self.head(torch.cat([both, nearest[:, :, 2:12:2, -6:].flatten(1)], 1))


class Layers(Case):
    batch = 32
    loss_tolerance = 1e-4
    gradient_tolerance = 1e-3
    parameter_tolerance = {"adamw": 1e-3}

    def model_ini(self):
        return """type = sequential
[layer rows]
type = reshape
shape = 28, 28
[layer a]
type = conv1d
channels = 12
kernel = 5
dilation = 2
groups = 4
causal = yes
bias = no
[layer n]
type = batch_norm
activation = tanh
[layer pool]
type = max_pool1d
kernel = 3
stride = 2
padding = 1
[layer b]
type = conv1d
channels = 12
kernel = 3
stride = 2
bias = no
[layer swap]
type = permute
order = 2, 1
[layer gate]
type = linear
out = 12
activation = sigmoid
[layer gated]
type = multiply
input = swap, gate
[layer mean]
type = mean
[layer largest]
type = max
input = gated
[layer halves]
type = avg_pool1d
kernel = 2
input = rows
[layer image]
type = reshape
shape = 1, 28, 14
[layer small]
type = avg_pool2d
kernel = 4
[layer up]
type = conv2d
channels = 2
kernel = 3
[layer large]
type = upsample
factor = 2x3
mode = bilinear
[layer nearest]
type = upsample
[layer top]
type = slice
axis = 2
start = 2
length = 10
[layer pairs]
type = reshape
shape = 2, 5, 2, 18
[layer first]
type = slice
axis = 3
length = 1
[layer right]
type = slice
axis = -1
start = -6
[layer flat]
type = flatten
[layer join]
type = concat
input = mean, largest, flat
[layer head]
type = linear
out = 10""".splitlines()

    def build_model(self, x, classes):
        return LayersModule(classes)


def check_counts(folder):
    """Parameters at the sizes that others publish: timm's vit_tiny and vit_base, the U-Net for RGB images, BERT-base without segments."""
    failures = 0
    for width, heads, want in ((192, 3, 5717416), (768, 12, 86567656)):
        lines = page("vit", f"layer patch_embed.proj.channels={width}", "layer patch_embed.proj.kernel=16",
                     "layer patch_embed.proj.stride=16", f"layer patches.shape={width}, -1",
                     "layer pos_embed.block_size=197", f"layer blocks.width={width}", f"layer blocks.heads={heads}",
                     "layer blocks.repeat=12", "layer head.out=1000")
        failures += report_count(f"vit {width}", count(folder, lines, "--input", "3x224x224", "--outputs", 1000), want)
    lines = page("unet")
    lines = lines[:lines.index("[layer inc]")]
    for name, kind, channels, reads in (("inc", "double", 64, ""), ("d1", "down", 128, ""), ("d2", "down", 256, ""),
                                        ("d3", "down", 512, ""), ("d4", "down", 1024, ""), ("u1", "up", 512, "d4, d3"),
                                        ("u2", "up", 256, "u1, d2"), ("u3", "up", 128, "u2, d1"), ("u4", "up", 64, "u3, inc")):
        lines += [f"[layer {name}]", f"type = {kind}", f"channels = {channels}", *([f"input = {reads}"] if reads else [])]
    lines += ["[layer outc]", "type = conv2d", "channels = 1", "kernel = 1"]
    failures += report_count("unet", count(folder, lines, "--input", "3x64x64", "--outputs", 1), 31037633)
    lines = page("bert", "layer bert.embeddings.word_embeddings.dim=768", "layer bert.embeddings.word_embeddings.vocab=30522",
                 "layer bert.embeddings.position_embeddings.block_size=512", "layer bert.encoder.layer.width=768",
                 "layer bert.encoder.layer.heads=12", "layer bert.encoder.layer.repeat=12",
                 "layer cls.predictions.transform.dense.out=768", "layer cls.predictions.out=30522")
    base = 109514298 - 2 * 768  # BertForMaskedLM(BertConfig()), whose segments are two rows
    failures += report_count("bert", count(folder, lines, "--tokens", 512, "--outputs", 30522), base)
    return failures


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        digits, text = folder / "digits.h5", folder / "text.h5"
        run(BIN / "charl", "data", "make", "digits", digits, "--train", 640, "--val", 64)
        (folder / "text.txt").write_text(" ".join(str(i * i % 997) for i in range(1500)))
        run(BIN / "charl", "data", "import", "text", folder / "text.txt", "-o", text, "--val-split", "0.1")
        vit = Vit("vit", "adamw", 1e-3, 0.05)
        images = [vit] + ([] if SHORT else [Unet("unet", "sgd", 1e-3, 1e-4), Layers("layers", "adamw", 1e-3, 0.01)])
        outputs, failures = compare_cases(images, digits, folder / "images")
        failures += check_vit(vit, outputs["vit"], digits)
        failures += compare_ranks(vit, digits, folder, outputs["vit"])
        _, more = compare_cases([Masked("adamw", 1e-3, 0.01)]
                                + ([] if SHORT else [Encoder(False, "adamw", 1e-3, 0.01), Encoder(True, "sgd", 0.05, 0.0)]), text, folder / "text")
        write_texts(folder / "texts.csv")
        run(BIN / "charl", "data", "import", "text-classes", folder / "texts.csv", "--window", WINDOW, "-o", folder / "texts.h5",
            "--val-split", "0.2")
        _, classified = compare_cases([Classifier("adamw", 1e-3, 0.01)], folder / "texts.h5", folder / "texts")
        failures += more + classified + check_counts(folder)
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
