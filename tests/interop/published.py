"""What tests of published models of images share: a run of charl that starts from a file of weights, its outputs and losses, and the weights that
charl exports; and how they are compared with PyTorch's. A test calls environment.enter() before it imports this module."""
import copy
import json
import pathlib
import struct
import subprocess
import sys

import environment

import h5py
import numpy as np
import torch

CLASSES, STEPS, BATCH, SIZE, RATE = 5, 20, 8, 64, 1e-4


def run(*command, code=0):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nfailed with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Run:
    """Training of the model that `lines` of [model] describe, from a file of weights, on rows x and targets y. A checkpoint of step 0 is left too."""

    def __init__(self, folder, name, lines, weights, x, y, steps=1, batch=1, rate=1e-3):
        self.folder, self.name = pathlib.Path(folder), name
        self.data, self.output = (self.folder / f"{name}{end}" for end in (".h5", "-run"))
        with h5py.File(self.data, "w") as f:
            f["x"], f["y"] = x, y
        self.output.mkdir()
        (self.output / "CHECKPOINT").touch()
        config = self.folder / f"{name}.ini"
        config.write_text("\n".join(["[run]", f"output_dir = {self.output}", "[data]", f"path = {self.data}", "x = /x", "y = /y",
                                     "shuffle = no", "[model]", *lines, "[init]", f"from = {weights}", "[train]", "loss = mse",
                                     f"max_steps = {steps}", f"batch_size = {batch}", "[optimizer]", "type = adamw",
                                     f"learning_rate = {rate}", "weight_decay = 0", "[log]", "interval = 1", "[device]", "share = yes", ""]))
        run(environment.BIN / "charl-train", "-q", config)
        self.checkpoint = self.output / "checkpoints" / "step-00000000.h5"

    def losses(self):
        lines = [json.loads(line) for line in (self.output / "metrics.jsonl").read_text().splitlines()]
        return np.array([r["loss"] for r in lines if r["event"] == "train"])

    def outputs(self):
        """Of all rows, before the first step."""
        predicted = self.folder / f"{self.name}-out.h5"
        run(environment.BIN / "charl", "predict", self.checkpoint, self.data, "-x", "/x", "-y", "/y", "-s", "train", "-o", predicted)
        with h5py.File(predicted) as f:
            return f["output"][...]

    def exported(self):
        """The tensors of a file of safetensors that charl writes."""
        path = self.folder / "exported.safetensors"
        run(environment.BIN / "charl", "checkpoint", "export", self.checkpoint, "-o", path)
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        header.pop("__metadata__", None)
        return {k: np.frombuffer(data[8 + size:], {"F32": np.float32, "I64": np.int64}[v["dtype"]], offset=v["data_offsets"][0],
                                 count=int(np.prod(v["shape"]))).reshape(v["shape"]) for k, v in header.items()}


def compare(name, what, got, want, tolerance):
    error = np.abs(got - want).max() / np.abs(want).max()
    print(f"{name}: {what} differ by {error:.1e} of the largest, {np.abs(want).max():.3g}", flush=True)
    if not error < tolerance:
        sys.exit(f"{name}: {what} differ by {error}")


def check_export(name, model, back):
    """What charl exports is loaded strictly, and has the weights of the model."""
    theirs = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    model.load_state_dict({k: torch.tensor(v) for k, v in back.items()}, strict=True)
    for key, value in theirs.items():
        if not key.endswith("num_batches_tracked") and not np.array_equal(back[key], value):
            sys.exit(f"{name}: {key} came back changed")


def set_statistics(model, x):
    """Those of the images, so that outputs depend on them."""
    model.train()
    with torch.no_grad():
        for _ in range(20 if any(isinstance(m, torch.nn.BatchNorm2d) for m in model.modules()) else 0):
            model(x)
    return model.eval()


def logits(out):
    return getattr(out, "logits", out)


def losses_of_pytorch(model, x, y, dtype=torch.double):
    model = copy.deepcopy(model).to(dtype).train()
    x, y = torch.tensor(x).to(dtype), torch.tensor(y).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        loss = torch.nn.functional.mse_loss(logits(model(x[rows])), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def check(name, lines, model, folder, save=None, bound=1e-5):
    """save: writes the weights into a folder, in place of a file of PyTorch; what charl exports is then the caller's to check.
    bound: None: losses may differ from those in double precision as much as PyTorch's in f32 do."""
    torch.set_num_threads(1)
    draw = np.random.RandomState(1)
    x = draw.standard_normal((STEPS * BATCH, 3, SIZE, SIZE)).astype(np.float32)
    y = draw.standard_normal((STEPS * BATCH, CLASSES)).astype(np.float32)
    model, weights = set_statistics(model, torch.tensor(x[:2 * BATCH])), folder / (name if save else f"{name}.pth")
    if save:
        save(weights)
    else:
        torch.save(model.state_dict(), weights)
    run_ = Run(folder, name, lines or [f"from = {weights}"], weights, x, y, STEPS, BATCH, RATE)
    with torch.no_grad():
        want = logits(model.double()(torch.tensor(x).double())).numpy()
    model.float()
    compare(name, "outputs", run_.outputs(), want, 1e-5)
    losses = losses_of_pytorch(model, x, y)
    if bound is None:
        bound = np.abs(losses_of_pytorch(model, x, y, torch.float) - losses).max() / np.abs(losses).max()
    compare(name, "losses of 20 steps", run_.losses(), losses, bound)
    if not save:
        check_export(name, model, run_.exported())
    return run_
