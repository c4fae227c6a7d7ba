"""PyTorch's side of a comparison: a process that builds a model, then takes turns.

    torch_worker.py CASE cpu|cuda [--compile] [--graph] [--threads=N]

It prints a line of JSON about itself, and for each line "SECONDS" that it reads, steps for about that long and prints the
milliseconds of one. With --graph a step is one CUDA graph, from zeroed gradients to the optimizer. CASE gemm reads "SECONDS M N K nt|nn|tn f32|bf16|f16" instead.
"""
import json
import os
import re
import sys
import time

import torch
from torch.nn import functional as F

import torch_models as models


def adamw(parameters, device, lr, **more):
    if device == "cuda" or tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4):  # one kernel for all parameters
        more["fused"] = True
    if device == "cuda":
        more["capturable"] = "--graph" in sys.argv
    return torch.optim.AdamW(parameters, lr=lr, **more)


def image_steps(model, device, batch, shape, classes, optimizer, half=False, channels_last=False, compiled=False, n=8000):
    """A training step on random images that lie on the device, drawn anew in every step where there are more than a batch. Without classes the
    targets are a zero or a one for each pixel."""
    model = model.to(device)
    images = torch.rand(n, *shape, device=device)
    labels = torch.randint(0, classes, (n,), device=device) if classes else (torch.rand(n, 1, *shape[1:], device=device) < 0.5).float()
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    update = optimizer(model.parameters())

    def loss_of(x, y):
        return F.cross_entropy(model(x), y) if classes else F.binary_cross_entropy_with_logits(model(x), y)

    run = torch.compile(loss_of) if compiled else loss_of

    def step():
        x, y = images, labels
        if n > batch:
            row = torch.randint(0, n, (batch,), device=device)
            x, y = images[row], labels[row]
        update.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=half):
            loss = run(x, y)
        loss.backward()
        update.step()

    return step


def token_steps(model, device, batch, window, vocab, optimizer, half=False, compiled=False, masked=0.0, clip=1.0):
    """A training step on windows of random tokens: of the next token or, with `masked`, of that fraction of the tokens."""
    model = model.to(device)
    tokens = torch.randint(0, vocab, (1_000_000,), device=device)
    span = torch.arange(window + 1, device=device)
    update = optimizer(model.parameters())

    def loss_of(x, y):
        return F.cross_entropy(model(x).view(-1, vocab), y.reshape(-1))

    run = torch.compile(loss_of) if compiled else loss_of

    def step():
        rows = tokens[torch.randint(0, len(tokens) - window, (batch, 1), device=device) + span]
        x, y = rows[:, :-1], rows[:, 1:]
        if masked:
            chosen = torch.rand(x.shape, device=device) < masked
            x, y = torch.where(chosen, vocab - 1, x), torch.where(chosen, x, -100)
        update.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=half):
            loss = run(x, y)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        update.step()

    return step


def as_graph(step):
    """The same step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what is allocated or compiled in the first steps is no part of it
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


GPT2 = {"gpt2-124m": (12, 12, 768, 32), "gpt2-350m": (24, 16, 1024, 16), "gpt2-1.5b": (48, 25, 1600, 8)}  # layers, heads, width, windows

IMAGE_MODELS = {  # model, batch, shape, classes
    "vit-b": (lambda: models.Vit(16, 197, 12, 12, 768, 1000), 128, (3, 224, 224), 1000),
    "convnext-t": (lambda: models.convnext((96, 192, 384, 768), (3, 3, 9, 3), 1000), 128, (3, 224, 224), 1000),
    "mobilenet": (lambda: models.mobilenet(1000), 256, (3, 224, 224), 1000),
    "unet": (lambda: models.Unet((64, 128, 256, 512)), 16, (3, 256, 256), 0),
}


def make(case, device, compiled):
    def sgd(parameters):
        return torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=5e-5, fused=device == "cuda")

    small = {"lr": 2e-3, "weight_decay": 0.01}
    half = case.endswith("-bf16")  # those that have both
    case = case.removesuffix("-bf16")
    if case == "mnist-mlp":
        return image_steps(models.perceptron(256, 128), device, 128, (1, 28, 28), 10, lambda p: adamw(p, device, **small), half, compiled=compiled)
    if case == "mlp-32":
        return image_steps(models.perceptron(256, 256, dropout=0), device, 32, (1, 28, 28), 10, lambda p: adamw(p, device, **small), half, compiled=compiled)
    if case == "mlp-8192":
        return image_steps(models.perceptron(8192, 8192, 8192), device, 4096, (1, 28, 28), 10, lambda p: adamw(p, device, **small), half, compiled=compiled)
    if case == "mnist-cnn":
        return image_steps(models.small_cnn(), device, 128, (1, 28, 28), 10, lambda p: adamw(p, device, **small), half, compiled=compiled)
    if case == "shakespeare":
        model = models.Gpt(65, 64, 4, 4, 128, False)
        return token_steps(model, device, 12, 64, 65, lambda p: adamw(p, device, 1e-3, betas=(0.9, 0.99), weight_decay=0.1), half, compiled)
    if case in GPT2:
        layers, heads, width, batch = GPT2[case]
        model = models.Gpt(50304, 1024, layers, heads, width, True)
        return token_steps(model, device, batch, 1024, 50304, lambda p: adamw(p, device, 6e-4, betas=(0.9, 0.95), weight_decay=0.1), True, compiled)
    if case in ("resnet18", "resnet50"):
        torch.backends.cudnn.benchmark = True
        model = models.resnet((2, 2, 2, 2), False) if case == "resnet18" else models.resnet((3, 4, 6, 3), True)
        return image_steps(model, device, 256, (3, 224, 224), 1000, sgd, True, True, compiled, n=256)
    if case in IMAGE_MODELS:
        make_model, batch, shape, classes = IMAGE_MODELS[case]
        torch.backends.cudnn.benchmark = True
        update = sgd if case == "mobilenet" else lambda p: adamw(p, device, 1e-3, weight_decay=0.05)
        return image_steps(make_model(), device, batch, shape, classes, update, True,
                           case != "vit-b", compiled, n=batch)
    if case == "bert-base":
        model = models.Bert(50305, 512, 12, 12, 768, 0.1)
        return token_steps(model, device, 32, 512, 50305, lambda p: adamw(p, device, 1e-4), True, compiled, 0.15, 0)
    if case == "lstm":
        torch.backends.cudnn.allow_tf32 = False  # products of f32 are products of f32
        return token_steps(models.Recurrent(65, 2, 512), device, 64, 256, 65, lambda p: adamw(p, device, 1e-3), half, compiled)
    sys.exit(f"no case {case}")


def product(m, n, k, form, dtype, device):
    """The matrix product of `charl-bench gemm`; the weight gradient (tn) of half types comes out in their type."""
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    a = torch.rand((k, m) if form == "tn" else (m, k), device=device).mul_(2).sub_(1).to(dtype)
    b = torch.rand((n, k) if form == "nt" else (k, n), device=device).mul_(2).sub_(1).to(dtype)
    out = torch.empty(m, n, device=device, dtype=dtype)
    a, b = a.t() if form == "tn" else a, b.t() if form == "nt" else b
    return lambda: torch.matmul(a, b, out=out)


def time_step(step, device, seconds, guess):
    """Milliseconds of one step, over about `seconds`; `guess` is what one may take."""
    n = max(1, int(seconds / guess))
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(n):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) / n


def settle(step, device, seconds):
    """What one step takes, roughly, after about `seconds` of them."""
    guess, until = time_step(step, device, 0, 1), time.perf_counter() + seconds
    while time.perf_counter() < until:
        guess = time_step(step, device, seconds / 8, guess)
    return guess


def blas_name():
    """The library behind a product on the CPU: what the process has loaded, else what PyTorch was built with."""
    config = torch.__config__.show()
    built = next((w.split("=")[1].rstrip(",") for w in config.split() if w.startswith("BLAS_INFO=")), "?")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = sorted({os.path.realpath(w) for w in maps.read().split() if re.search(r"/lib(openblas|mkl_rt|blis)", w)})
    return ", ".join(os.path.basename(f) for f in found) or built


def main():
    case, device = sys.argv[1:3]
    for option in sys.argv[3:]:
        if option.startswith("--threads="):
            torch.set_num_threads(int(option.split("=")[1]))
    step = None if case == "gemm" else make(case, device, "--compile" in sys.argv)
    if step and "--graph" in sys.argv:
        step = as_graph(step)
    if step:
        settle(step, device, 2)
    print(json.dumps({"torch": torch.__version__, "blas": blas_name(), "threads": torch.get_num_threads()}), flush=True)
    for line in sys.stdin:
        words = line.split()
        run = step or product(*map(int, words[1:4]), words[4], words[5], device)
        guess = settle(run, device, float(words[0]) / 4)  # threads and caches as they are at work
        print(json.dumps({"ms": 1e3 * time_step(run, device, float(words[0]), guess)}), flush=True)


torch.manual_seed(1)
main()
