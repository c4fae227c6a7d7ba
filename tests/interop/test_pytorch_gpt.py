#!/usr/bin/python3
"""Transformers give the same numbers as PyTorch: GPT-2's kind, and Llama's with rotary positions,
RMS norm, SwiGLU and grouped key and value heads.

How they are compared: pytorch_case.py. CHARL_TEST_SHORT=1: GPT-2's kind only.
"""
import pathlib
import random
import sys
import tempfile

from pytorch_case import BIN, SHORT, Case, compare_cases, compare_ranks, h5py, nn, run, torch

LAYERS, HEADS, WIDTH, WINDOW = 2, 4, 32, 24
functional = nn.functional


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class LayerNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


def rotate(x):
    """x [B, H, T, D]: pairs (i, i + D/2) turned by position * 10000^(-2i/D)."""
    half = x.shape[-1] // 2
    inverse = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * inverse
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


class Attention(nn.Module):
    start = None  # [B, T]: where the document of each token begins

    def __init__(self, case):
        super().__init__()
        self.rotary, self.kv_heads = case.rotary, case.kv_heads
        width = (HEADS + 2 * case.kv_heads) * (WIDTH // HEADS)
        self.c_attn = nn.Linear(WIDTH, width, bias=case.bias)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=case.bias)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.c_attn(x).view(batch, length, HEADS + 2 * self.kv_heads, -1).transpose(1, 2)
        q, k, v = heads.split([HEADS, self.kv_heads, self.kv_heads], 1)
        if self.rotary:
            q, k = rotate(q), rotate(k)
        k, v = (t.repeat_interleave(HEADS // self.kv_heads, 1) for t in (k, v))
        score = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        if Attention.start is not None:
            mask = mask | (torch.arange(length) < Attention.start[:, None, :, None])
        out = score.masked_fill(mask, float("-inf")).softmax(-1) @ v
        return self.c_proj(out.transpose(1, 2).reshape(batch, length, WIDTH))


class Mlp(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.gated = case.gated
        hidden = (8 * WIDTH // 3 + 63) // 64 * 64 if case.gated else 4 * WIDTH
        self.c_fc = nn.Linear(WIDTH, 2 * hidden if case.gated else hidden, bias=case.bias)
        self.c_proj = nn.Linear(hidden, WIDTH, bias=case.bias)

    def forward(self, x):
        x = self.c_fc(x)
        if self.gated:
            gate, up = x.chunk(2, -1)
            return self.c_proj(functional.silu(gate) * up)
        return self.c_proj(functional.gelu(x))


class Block(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.ln_1, self.attn = case.norm(), Attention(case)
        self.ln_2, self.mlp = case.norm(), Mlp(case)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self, case, vocab):
        super().__init__()
        self.wte = nn.Embedding(vocab, WIDTH)
        self.wpe = None if case.rotary else nn.Embedding(WINDOW, WIDTH)
        self.h = nn.ModuleList(Block(case) for _ in range(LAYERS))
        self.ln_f = case.norm()
        self.lm_head = None if case.tied else nn.Linear(WIDTH, vocab, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens)
        if self.wpe is not None:
            position = torch.arange(tokens.shape[1])
            x = x + self.wpe.weight[position if Attention.start is None else position - Attention.start]
        for block in self.h:
            x = block(x)
        head = self.wte if self.lm_head is None else self.lm_head
        return functional.linear(self.ln_f(x), head.weight)


class Gpt(Case):
    batch, slices = 8, 8
    vocab = 256
    loss_tolerance = 1e-4
    bias, tied, rotary, gated, kv_heads = True, True, False, False, HEADS

    def norm(self):
        return LayerNorm(WIDTH, self.bias)

    def model_ini(self):
        return ["type = gpt", f"n_layer = {LAYERS}", f"n_head = {HEADS}", f"n_embd = {WIDTH}",
                f"block_size = {WINDOW}", f"bias = {'yes' if self.bias else 'no'}",
                f"tie_weights = {'yes' if self.tied else 'no'}"]

    def build_model(self, x, classes):
        return Model(self, classes)

    def groups(self, model):
        """Vectors do not decay: nanoGPT's rule, charl's default for gpt."""
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() <= 1]
        return [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]

    def classes(self, y):
        return self.vocab

    def read_data(self, path, split, dtype):
        """Windows one after the other; the targets are one token later."""
        with h5py.File(path, "r") as f:
            tokens = torch.tensor(f[f"{split}/tokens"][...].astype("int64"))
        rows = (len(tokens) - 1) // WINDOW
        return (tokens[: rows * WINDOW].view(rows, WINDOW),
                tokens[1: rows * WINDOW + 1].view(rows, WINDOW))


class Llama(Gpt):
    bias, tied, rotary, gated, kv_heads = False, False, True, True, 2

    def norm(self):
        return RMSNorm(WIDTH)

    def model_ini(self):
        return [*super().model_ini(), "norm = rms", "mlp = swiglu", "positions = rotary",
                f"n_kv_head = {self.kv_heads}"]


CASES = [
    Gpt("gpt adamw", "adamw", 1e-3, 0.1, grad_clip=1.0),
    Llama("llama adamw", "adamw", 1e-3, 0.1, grad_clip=1.0),
    Gpt("gpt sgd", "sgd", 0.05, 0.0),
]


def write_text(path):
    """Words from a small vocabulary: something to learn, without a data set."""
    draw = random.Random(5)
    words = ["".join(draw.choice("abcdefgh") for _ in range(draw.randint(1, 6))) for _ in range(40)]
    path.write_text(" ".join(draw.choice(words) for _ in range(3000)))


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as folder:
        folder = pathlib.Path(folder)
        text, data = folder / "words.txt", folder / "words.h5"
        write_text(text)
        run(BIN / "charl", "data", "import", "text", text, "--val-split", 0.1, "-o", data)
        outputs, failures = compare_cases(CASES[:1] if SHORT else CASES, data, folder)
        failures += compare_ranks(CASES[0], data, folder, outputs[CASES[0].name], ranks=3)
    if failures:
        print(f"{failures} comparisons failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
