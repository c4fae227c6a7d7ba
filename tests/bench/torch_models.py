"""The models of the comparisons in PyTorch: the same layers, optimizer and batch as charl's configurations."""
import torch
from torch import nn
from torch.nn import functional as F


def perceptron(*hidden, dropout=0.2):
    """launch/mnist-mlp.ini"""
    layers, width = [nn.Flatten()], 784
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU(), nn.Dropout(dropout)]
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
    def __init__(self, width, heads, bias, causal=True, dropout=0.0):
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).split(c, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.dropout if self.training else 0.0)
        else:  # before PyTorch 2, for GPT alone
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
    def __init__(self, width, heads, bias, causal=True, gelu="tanh"):
        super().__init__()
        self.norm1, self.norm2 = LayerNorm(width, bias), LayerNorm(width, bias)
        self.attention = Attention(width, heads, bias, causal)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width, bias=bias), nn.GELU(approximate=gelu), nn.Linear(4 * width, width, bias=bias))

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


class Residual(nn.Module):
    """A block of a ResNet: two convolutions of 3 x 3 or, as a bottleneck, one between two of 1 x 1."""

    def __init__(self, channels, width, stride, bottleneck):
        super().__init__()
        out = 4 * width if bottleneck else width

        def conv(channels, out, kernel, stride=1):
            return [nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out)]

        self.body = nn.Sequential(
            *conv(channels, width, 1), nn.ReLU(True), *conv(width, width, 3, stride), nn.ReLU(True), *conv(width, out, 1),
        ) if bottleneck else nn.Sequential(*conv(channels, width, 3, stride), nn.ReLU(True), *conv(width, out, 3))
        self.shortcut = nn.Identity()
        if stride > 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), True)


def resnet(depths, bottleneck):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for group, count in enumerate(depths):
        for k in range(count):
            layers.append(Residual(channels, 64 << group, 2 if group > 0 and k == 0 else 1, bottleneck))
            channels = (256 if bottleneck else 64) << group
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class Vit(nn.Module):
    """docs/models/vit.md: learned positions, a class token, erf's GELU"""

    def __init__(self, patch, positions, layers, heads, width, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, positions, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, True, causal=False, gelu="none") for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1).to(x.dtype), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class ChannelNorm(nn.LayerNorm):
    """Over the channels of each pixel."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.rest = nn.Sequential(nn.LayerNorm(width, 1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.gamma = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        y = self.rest(self.depthwise(x).permute(0, 2, 3, 1)) * self.gamma
        return x + y.permute(0, 3, 1, 2)


def convnext(widths, depths, classes):
    """docs/models/convnext.md"""
    layers = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0], 1e-6)]
    for k, (width, depth) in enumerate(zip(widths, depths)):
        if k > 0:
            layers += [ChannelNorm(widths[k - 1], 1e-6), nn.Conv2d(widths[k - 1], width, 2, 2)]
        layers += [ConvNextBlock(width) for _ in range(depth)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1], 1e-6), nn.Linear(widths[-1], classes))


def mobilenet(classes):
    """docs/models/mobilenet.md"""
    def conv(channels, out, kernel, stride=1, groups=1):
        return [nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(out), nn.ReLU(True)]

    layers, channels = conv(3, 32, 3, 2), 32
    for out, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        layers += conv(channels, channels, 3, stride, channels) + conv(channels, out, 1)
        channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, classes))


class Unet(nn.Module):
    """docs/models/unet.md, a logit for each pixel"""

    def __init__(self, widths):
        super().__init__()
        def double(channels, out):
            return nn.Sequential(
                nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(True),
                nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(True))

        pairs = list(zip(widths, widths[1:]))
        self.first, self.pool, self.last = double(3, widths[0]), nn.MaxPool2d(2), nn.Conv2d(widths[0], 1, 1)
        self.down = nn.ModuleList(double(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs)
        self.join = nn.ModuleList(double(2 * a, a) for a, _ in pairs)

    def forward(self, x):
        seen = [self.first(x)]
        for down in self.down:
            seen.append(down(self.pool(seen[-1])))
        x = seen.pop()
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = join(torch.cat([seen.pop(), up(x)], 1))
        return self.last(x)


class BertBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention = Attention(width, heads, True, causal=False, dropout=dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm1(x + self.drop(self.attention(x)))
        return self.norm2(x + self.drop(self.mlp(x)))


class Bert(nn.Module):
    """docs/models/bert.md"""

    def __init__(self, vocab, window, layers, heads, width, dropout):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(window, width)
        self.first = nn.Sequential(nn.LayerNorm(width, 1e-12), nn.Dropout(dropout))
        self.blocks = nn.Sequential(*(BertBlock(width, heads, dropout) for _ in range(layers)))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, 1e-12))
        self.head = nn.Linear(width, vocab)
        self.head.weight = self.tokens.weight
        self.register_buffer("place", torch.arange(window))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x):
        return self.head(self.transform(self.blocks(self.first(self.tokens(x) + self.positions(self.place)))))
