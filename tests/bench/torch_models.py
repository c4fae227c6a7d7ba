"""The models of the comparisons in PyTorch: the same layers, optimizer and batch as charl's configurations."""
import torch
from torch import nn
from torch.nn import functional as F


def perceptron(*hidden):
    """launch/mnist-mlp.ini"""
    layers, width = [nn.Flatten()], 784
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU(), nn.Dropout(0.2)]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, 10))


def small_cnn():
    """launch/mnist-cnn.ini"""
    def block(channels, out):
        return [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(
        *block(1, 16), *block(16, 32), nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.25),
        nn.Linear(128, 10))


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).split(c, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # before PyTorch 2
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            w = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
            y = w.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class LayerNorm(nn.Module):
    """Before PyTorch 2.1 nn.LayerNorm has a bias or nothing."""

    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.norm1, self.norm2 = LayerNorm(width, bias), LayerNorm(width, bias)
        self.attention = Attention(width, heads, bias)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width, bias=bias), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width, bias=bias))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """GPT-2 as charl's `type = gpt`, with the head's weight tied to the embedding."""

    def __init__(self, vocab, window, layers, heads, width, bias):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(window, width)
        self.blocks = nn.Sequential(*(Block(width, heads, bias) for _ in range(layers)))
        self.norm = LayerNorm(width, bias)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("place", torch.arange(window))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.positions(self.place))))


class Recurrent(nn.Module):
    """lstm.ini"""

    def __init__(self, vocab, layers, width):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, x):
        return self.head(self.lstm(self.tokens(x))[0])


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity()
        if stride > 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for group, count in enumerate((3, 4, 6, 3)):
        for k in range(count):
            layers.append(Bottleneck(channels, 64 << group, 2 if group > 0 and k == 0 else 1))
            channels = 256 << group
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
