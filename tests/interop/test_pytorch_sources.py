#!/usr/bin/python3
"""Encoders and decoders over two inputs of padded sequences give the same numbers as PyTorch: attention to another source with padded keys,
blocks of a decoder, and bidirectional recurrent networks.

How they are compared: pytorch_case.py. PyTorch's side is its own multi-head attention, with another source and key_padding_mask, and nn.LSTM
over packed sequences.
"""
import pathlib
import sys
import tempfile

from pytorch_case import Case, compare_cases, compare_ranks, h5py, nn, np, torch

SOURCE, TARGET, WORDS, WIDTH, HEADS, ROWS, VAL = 5, 4, 7, 16, 2, 720, 72
DECODER = f"""[layer word]
type = embedding
input = before
vocab = {WORDS}
dim = {WIDTH}
[layer decoder]
type = transformer_block
input = word, memory
heads = {HEADS}
init_std = 0.2
[layer words]
type = linear
out = {WORDS}
""".splitlines()
LSTM = f"""type = sequential
[layer letter]
type = embedding
input = letters
vocab = {WORDS}
dim = 6
[layer memory]
type = lstm
hidden_size = {WIDTH // 2}
num_layers = 2
bidirectional = yes
""".splitlines()
LAYERS = f"""type = sequential
[layer letter]
type = embedding
input = letters
vocab = {WORDS}
dim = 6
[layer ends]
type = gru
hidden_size = {WIDTH // 2}
bidirectional = yes
last = yes
[layer word]
type = embedding
input = before
vocab = {WORDS}
dim = {WIDTH}
[layer kv]
type = linear
input = letter
out = {2 * WIDTH}
[layer q]
type = linear
input = word
out = {WIDTH}
[layer seen]
type = attention
input = q, kv
heads = {HEADS}
[layer sum]
type = concat
input = seen, word
axis = -1
[layer body]
type = linear
out = {WORDS}
[layer bias]
type = linear
input = ends
out = {TARGET * WORDS}
[layer table]
type = reshape
shape = {TARGET}, {WORDS}
[layer words]
type = add
input = body, table
""".splitlines()


def attend(q, kv, weights, out, padding):
    """torch.nn.MultiheadAttention's function: q [B, T, C], keys and values of kv [B, K, any]; padding: true where a key does not count."""
    (wq, bq), (wkv, bkv) = weights
    y, _ = nn.functional.multi_head_attention_forward(
        q.transpose(0, 1), kv.transpose(0, 1), kv.transpose(0, 1), WIDTH, HEADS, None, torch.cat([bq, bkv]), None, None, False, 0.0,
        *out, key_padding_mask=padding, need_weights=False, use_separate_proj_weight=True, q_proj_weight=wq,
        k_proj_weight=wkv[:WIDTH], v_proj_weight=wkv[WIDTH:])
    return y.transpose(0, 1)


def pair(layer):
    return layer.weight, layer.bias


class Block(nn.Module):
    """A block of a decoder, with charl's names."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_cross_attn, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(WIDTH, 3 * WIDTH), "c_proj": nn.Linear(WIDTH, WIDTH)})
        self.crossattention = nn.ModuleDict({"q_attn": nn.Linear(WIDTH, WIDTH), "c_attn": nn.Linear(WIDTH, 2 * WIDTH),
                                             "c_proj": nn.Linear(WIDTH, WIDTH)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(WIDTH, 4 * WIDTH), "c_proj": nn.Linear(4 * WIDTH, WIDTH)})

    def forward(self, x, memory, padding):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, HEADS, c // HEADS).transpose(1, 2) for p in self.attn["c_attn"](self.ln_1(x)).chunk(3, -1))
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        weights = (q @ k.transpose(-1, -2) / (c // HEADS) ** 0.5).masked_fill(later, -torch.inf).softmax(-1)
        x = x + self.attn["c_proj"]((weights @ v).transpose(1, 2).reshape(b, t, c))
        a = self.crossattention
        x = x + attend(self.ln_cross_attn(x), memory, (pair(a["q_attn"]), pair(a["c_attn"])), pair(a["c_proj"]), padding)
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


def packed(rnn, x, length):
    """The outputs of a recurrent network over padded sequences, and its last states."""
    out, state = rnn(nn.utils.rnn.pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False))
    return nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=SOURCE)[0], state


class Sources(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter, self.word = nn.Embedding(WORDS, 6), nn.Embedding(WORDS, WIDTH)

    def inputs(self, x):
        letters, before = x.long().split([SOURCE, TARGET], 1)
        return self.letter(letters.clamp(min=0)), (letters >= 0).sum(1), letters < 0, self.word(before.clamp(min=0))


class Decoder(Sources):
    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(6, WIDTH // 2, 2, batch_first=True, bidirectional=True)
        self.decoder, self.words = Block(), nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        letters, length, padding, word = self.inputs(x)
        return self.words(self.decoder(word, packed(self.memory, letters, length)[0], padding))


class Layers(Sources):
    def __init__(self):
        super().__init__()
        self.ends = nn.GRU(6, WIDTH // 2, batch_first=True, bidirectional=True)
        self.kv, self.q, self.body = nn.Linear(6, 2 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WORDS)
        self.bias = nn.Linear(WIDTH, TARGET * WORDS)

    def forward(self, x):
        letters, length, padding, word = self.inputs(x)
        ends = packed(self.ends, letters, length)[1].transpose(0, 1).flatten(1)
        one = torch.eye(WIDTH, dtype=word.dtype), torch.zeros(WIDTH, dtype=word.dtype)
        seen = attend(word, letters, (pair(self.q), pair(self.kv)), one, padding)
        return self.body(torch.cat([seen, word], -1)) + self.bias(ends).view(-1, TARGET, WORDS)


class Translation(Case):
    batch = 32

    def __init__(self, name, lines, module):
        super().__init__(name, "adamw", 2e-3, 0.05)
        self.lines, self.module = lines, module

    def model_ini(self):
        return self.lines

    def ini(self, data, output):
        names = "x = letters:/letters:tokens, before:/before:tokens\ny = words:/words\nval_split = 0.1\n"
        return super().ini(data, output).replace("shuffle = no\n", "shuffle = no\n" + names)

    def build_model(self, x, classes):
        return self.module()

    def classes(self, y):
        return WORDS

    def comparable(self, name, array):
        """Not the biases of keys: softmax does not depend on them."""
        if name.endswith(".attn.c_attn.bias"):
            return np.delete(array, np.s_[WIDTH:2 * WIDTH])
        return array[WIDTH:] if name.endswith(("crossattention.c_attn.bias", "kv.bias")) else array

    def read_data(self, path, split, dtype):
        rows = slice(ROWS - VAL) if split == "train" else slice(ROWS - VAL, ROWS)
        with h5py.File(path) as f:
            return (torch.tensor(np.concatenate([f["letters"][rows], f["before"][rows]], 1), dtype=dtype),
                    torch.tensor(f["words"][rows].astype(np.int64)))

    def loss(self, logits, y):
        """The mean over the samples of the mean over the words that count."""
        each = nn.functional.cross_entropy(logits.reshape(-1, WORDS), y.flatten(), ignore_index=-1, reduction="none").view(y.shape)
        return (each.sum(1) / (y >= 0).sum(1)).mean()

    def validation(self, logits, y):
        return self.loss(logits, y).item(), None, None


def make_data(path):
    r = np.random.default_rng(0)
    letters, words = (r.integers(0, WORDS, (ROWS, n)).astype("i4") for n in (SOURCE, TARGET))
    for array, n in ((letters, SOURCE), (words, TARGET)):
        array[np.arange(n) >= r.integers(1, n + 1, (ROWS, 1))] = -1
    before = np.where(words < 0, -1, np.concatenate([np.zeros((ROWS, 1), "i4"), words[:, :-1]], 1))
    with h5py.File(path, "w") as f:
        f["letters"], f["before"], f["words"] = letters, before, words


def main():
    cases = [Translation("lstm and a decoder", LSTM + DECODER, Decoder), Translation("attention and a gru", LAYERS, Layers)]
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        make_data(folder / "data.h5")
        outputs, failures = compare_cases(cases, folder / "data.h5", folder)
        failures += compare_ranks(cases[0], folder / "data.h5", folder, outputs[cases[0].name])
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
