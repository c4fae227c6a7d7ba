"""The vision transformer of docs/models/vit.md in torch.nn, with charl's names. test_model_names.py compares it with timm's."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, t, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


class VitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, 1e-6), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width, 1e-6), Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Row(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))


class Projection(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, 4, 4)


class VitModule(nn.Module):
    """Images of 28x28 in patches of 4x4."""

    def __init__(self, channels, classes, width, depth, heads):
        super().__init__()
        self.patch_embed = Projection(channels, width)
        self.cls_token, self.pos_embed = Row(width), Row(50, width)
        self.blocks = nn.Sequential(*(VitBlock(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.weight.expand(len(x), 1, -1), x], 1) + self.pos_embed.weight
        return self.head(self.norm(self.blocks(x))[:, 0])
