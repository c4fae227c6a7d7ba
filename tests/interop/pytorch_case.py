"""What the comparisons with PyTorch share: running charl, reading what it wrote, repeating it in
PyTorch, and measuring how far apart they are.

Every case trains 20 steps with charl. PyTorch (in double precision) starts from charl's checkpoint
of step 0 and repeats them; compared are every loss, learning rate and gradient norm, and at the end
all parameters, running statistics and the optimizer's state. From the checkpoint of step 10 PyTorch
also goes on with charl's optimizer state. Validation is compared on charl's own weights. Where a case
fails PyTorch in single precision is shown beside it: the two f32 runs differ by as much as rounding
allows. On other numbers of ranks charl has the same bits.

The programs in $CHARL_BIN_DIR make the data and train; exit code 77 means that PyTorch or h5py is
missing.
"""
import json
import math
import os
import pathlib
import subprocess
import sys

try:
    import h5py
    import numpy as np
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BIN = pathlib.Path(os.environ.get("CHARL_BIN_DIR", ""))
SHORT = os.environ.get("CHARL_TEST_SHORT") == "1"
STEPS, HALF = 20, 10
STATES = {"sgd": ["momentum_buffer"], "adam": ["exp_avg", "exp_avg_sq"],
          "adamw": ["exp_avg", "exp_avg_sq"], "rmsprop": ["square_avg", "momentum_buffer"],
          "adagrad": ["sum"]}


class Case:
    """One training: the settings of charl's configuration that differ from the common ones.

    A subclass says what is trained: model_ini() and build_model(), and where they are not images
    with one label each, read_data() and loss().
    """

    batch, slices = 64, 8
    loss_tolerance = 1e-5
    gradient_tolerance = 1e-4  # of the norm, and of the optimizer's state
    parameter_tolerance = {"sgd": 1e-5, "adam": 1e-4, "adamw": 1e-4, "rmsprop": 1e-4,
                           "adagrad": 1e-4}

    def __init__(self, name, optimizer, lr, weight_decay, **more):
        self.name, self.optimizer = name, optimizer
        self.lr, self.weight_decay = lr, weight_decay
        self.nesterov = more.get("nesterov", False)
        self.grad_clip = more.get("grad_clip", 0.0)
        self.label_smoothing = more.get("label_smoothing", 0.0)
        self.z_loss = more.get("z_loss", 0.0)
        self.min_lr = more.get("min_lr")  # cosine schedule down to it

    def model_ini(self):
        """The lines of section [model]."""
        raise NotImplementedError

    def build_model(self, x, classes):
        """PyTorch's model for samples x, with charl's names."""
        raise NotImplementedError

    def read_data(self, path, split, dtype):
        """Samples and labels of a split in the order of the file, as charl feeds them."""
        with h5py.File(path, "r") as f:
            node = f[f"{split}/x"]
            mean, std = (f["train/x"].attrs[k].astype(np.float64) for k in ("mean", "std"))
            x = (node[...].astype(np.float64) - mean[:, None, None]) / std[:, None, None]
            labels = f[f"{split}/y"][...].astype(np.int64)
            return torch.tensor(x, dtype=dtype), torch.tensor(labels)

    def loss(self, logits, y):
        """Mean over the predictions, of which a sample has one or, a text, many."""
        return nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten(),
                                           label_smoothing=self.label_smoothing)

    def validation(self, logits, y):
        """The loss of an evaluation, how many predictions are right, and of how many."""
        y = y.flatten()
        return (nn.functional.cross_entropy(logits, y).item(),
                int((logits.argmax(1) == y).sum()), len(y))

    def classes(self, y):
        return int(y.max()) + 1

    def groups(self, model):
        """The parameters as PyTorch's optimizers take them."""
        return model.parameters()

    def comparable(self, name, array):
        """What of a parameter, or of its optimizer state, is compared: all but what has a gradient of exactly 0 in theory, and rounding
        alone in practice, which Adam makes as large as any other."""
        return array

    def ini(self, data, output):
        lines = ["[run]", "seed = 7", f"output_dir = {output}",
                 "[data]", f"path = {data}", "shuffle = no", "[model]", *self.model_ini(),
                 "[train]", f"batch_size = {self.batch}", f"slices = {self.slices}", f"max_steps = {STEPS}",
                 f"grad_clip = {self.grad_clip}", f"label_smoothing = {self.label_smoothing}",
                 *([f"z_loss = {self.z_loss}"] if self.z_loss else []),
                 "[optimizer]", f"type = {self.optimizer}", f"learning_rate = {self.lr}",
                 f"weight_decay = {self.weight_decay}"]
        if self.optimizer == "rmsprop":
            lines += ["momentum = 0.9"]
        if self.optimizer == "sgd":
            lines += ["momentum = 0.9", f"nesterov = {'yes' if self.nesterov else 'no'}"]
        if self.min_lr is not None:
            lines += ["[scheduler]", "type = cosine", f"min_lr = {self.min_lr}"]
        lines += ["[eval]", f"interval = {HALF}", "[log]", "interval = 1",
                  "[checkpoint]", f"interval = {HALF}", "keep_last = 10",
                  "[device]", "share = yes"]
        return "\n".join(lines) + "\n"


def run(*command):
    """Run a program; its output matters only when it fails."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed with {done.returncode}:\n{done.stdout}")


def train(case, data, directory, ranks=1):
    """Train in charl; the file CHECKPOINT asks for a checkpoint before the first step."""
    output = directory / "run"
    output.mkdir(parents=True)
    (output / "CHECKPOINT").touch()
    config = directory / "config.ini"
    config.write_text(case.ini(data, output))
    launch = ["mpirun", "-n", ranks, "--oversubscribe", "--bind-to", "none"] if ranks > 1 else []
    run(*launch, BIN / "charl-train", "--quiet", config)
    return output


def read_checkpoint(output, step):
    """{group: {name: array}} for the groups model and optim/STATE, and the optimizer's t."""
    groups = {}

    def visit(name, node):
        if isinstance(node, h5py.Dataset) and name.split("/")[0] in ("model", "optim"):
            group, tensor = name.rsplit("/", 1)
            groups.setdefault(group, {})[tensor] = node[...].astype(np.float64)

    with h5py.File(output / "checkpoints" / f"step-{step:08d}.h5", "r") as f:
        f.visititems(visit)
        if f.attrs["step"] != step or f["optim"].attrs["t"] != step:
            sys.exit(f"{f.filename}: step {f.attrs['step']}, optimizer t {f['optim'].attrs['t']}")
    return groups


def read_metrics(output):
    """Rows of metrics.jsonl: {step: row} of training and of validation."""
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return ({r["step"]: r for r in rows if r["event"] == "train"},
            {r["step"]: r for r in rows if r["event"] == "val"})


def load_model(model, arrays):
    """Strictly: the same names and shapes on both sides, but for PyTorch's own batch counters."""
    counters = {k: v for k, v in model.state_dict().items() if k.endswith("num_batches_tracked")}
    dtype = next(model.parameters()).dtype
    model.load_state_dict({**counters, **{k: torch.tensor(v, dtype=dtype)
                                          for k, v in arrays.items()}}, strict=True)


def build_optimizer(case, model):
    if case.optimizer == "sgd":
        return torch.optim.SGD(case.groups(model), lr=case.lr, momentum=0.9,
                               weight_decay=case.weight_decay, nesterov=case.nesterov)
    if case.optimizer == "rmsprop":
        return torch.optim.RMSprop(case.groups(model), lr=case.lr, momentum=0.9,
                                   weight_decay=case.weight_decay)
    if case.optimizer == "adagrad":
        return torch.optim.Adagrad(case.groups(model), lr=case.lr, weight_decay=case.weight_decay)
    kind = torch.optim.Adam if case.optimizer == "adam" else torch.optim.AdamW
    return kind(case.groups(model), lr=case.lr, weight_decay=case.weight_decay)


def load_optimizer(case, model, optimizer, groups, t):
    for name, p in model.named_parameters():
        state = optimizer.state[p]
        for key in STATES[case.optimizer]:
            state[key] = torch.tensor(groups[f"optim/{key}"][name], dtype=p.dtype)
        if case.optimizer != "sgd":
            state["step"] = torch.tensor(float(t))


class Deviation:
    """The largest deviation of each kind, and what exceeds its tolerance."""

    def __init__(self):
        self.worst, self.failures = {}, []

    def add(self, kind, what, deviation, tolerance):
        self.worst[kind] = max(self.worst.get(kind, 0.0), deviation)
        if not deviation <= tolerance:  # a NaN fails
            self.failures.append(f"{kind} {what}: deviates by {deviation:.3g}, at most {tolerance}")

    def number(self, kind, what, got, want, tolerance):
        self.add(kind, what, abs(got - want) / abs(want), tolerance)

    def tensors(self, kind, got, want, tolerance):
        """Relative 2-norm per tensor; both sides must have the same names and shapes."""
        if {k: v.shape for k, v in got.items()} != {k: v.shape for k, v in want.items()}:
            self.failures.append(f"{kind}: charl has {sorted(got)}, PyTorch {sorted(want)}")
            return
        for name, w in want.items():
            scale = np.linalg.norm(w)
            distance = np.linalg.norm(got[name] - w)
            self.add(kind, name, distance / scale if scale else distance, tolerance)


def numpy_of(tensors, trained=True):
    return {k: v.detach().numpy().astype(np.float64) for k, v in tensors
            if k.endswith(("running_mean", "running_var")) != trained
            and not k.endswith("num_batches_tracked")}


def compare_steps(case, model, optimizer, batches, rows, deviation):
    """Train in PyTorch from where the model is, comparing every row of charl's metrics."""
    (x, y), first = batches, min(rows)
    schedule = None
    if case.min_lr is not None:
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS, case.min_lr)
    model.train()
    for step in range(first, STEPS + 1):
        at = slice((step - 1) * case.batch, step * case.batch)
        optimizer.zero_grad()
        loss = case.loss(model(x[at]), y[at])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), case.grad_clip or math.inf)
        rate = optimizer.param_groups[0]["lr"]
        optimizer.step()
        if schedule:
            schedule.step()
        row = rows[step]
        deviation.number("loss", f"of step {step}", row["loss"], loss.item(), case.loss_tolerance)
        deviation.number("lr", f"of step {step}", row["lr"], rate, 1e-6)
        deviation.number("grad norm", f"of step {step}", row["grad_norm"], norm.item(),
                         case.gradient_tolerance)


def compare_end(case, model, optimizer, groups, deviation):
    tolerance = case.parameter_tolerance[case.optimizer]

    def compare_tensors(kind, got, want, limit):
        deviation.tensors(kind, *({k: case.comparable(k, v) for k, v in side.items()} for side in (got, want)), limit)

    charl = {k: torch.tensor(v) for k, v in groups["model"].items()}
    for kind, trained in (("parameters", True), ("statistics", False)):
        compare_tensors(kind, numpy_of(charl.items(), trained),
                        numpy_of(model.state_dict().items(), trained), tolerance)
    for key in STATES[case.optimizer]:
        got = {f"{key}/{k}": v for k, v in groups.get(f"optim/{key}", {}).items()}
        want = {f"{key}/{k}": optimizer.state[p][key].numpy().astype(np.float64)
                for k, p in model.named_parameters()}
        compare_tensors("optimizer", got, want, case.gradient_tolerance)


def compare_validation(case, model, groups, data, row, deviation):
    """Evaluation on the same weights; a sample between two classes may count either way."""
    x, y = data
    load_model(model, groups["model"])
    model.eval()
    with torch.no_grad():
        logits = model(x).flatten(0, -2)
    loss, correct, count = case.validation(logits, y)
    deviation.number("val loss", f"of step {row['step']}", row["loss"], loss, case.loss_tolerance)
    if correct is None:
        return
    top = logits.topk(2).values
    ties = int((top[:, 0] - top[:, 1] < 1e-4).sum())
    deviation.add("accuracy", f"of step {row['step']}",
                  abs(row["accuracy"] * count - correct), ties + 1e-3)  # a count, from a mean in f32


def compare(case, output, data, dtype):
    """Every comparison of one run of charl with PyTorch in one precision."""
    deviation = Deviation()
    train_rows, val_rows = read_metrics(output)
    if sorted(train_rows) != list(range(1, STEPS + 1)) or sorted(val_rows) != [HALF, STEPS]:
        sys.exit(f"{case.name}: steps logged {sorted(train_rows)}, validated {sorted(val_rows)}")
    x, y = case.read_data(data, "train", dtype)
    end = read_checkpoint(output, STEPS)
    for start in (0, HALF):
        if start and (case.min_lr is not None or dtype == torch.float32):
            continue  # PyTorch's schedules start at step 0; f32 is only shown
        model = case.build_model(x, case.classes(y)).to(dtype)
        optimizer = build_optimizer(case, model)
        groups = read_checkpoint(output, start)
        load_model(model, groups["model"])
        if start:
            load_optimizer(case, model, optimizer, groups, start)
        compare_steps(case, model, optimizer, (x, y),
                      {k: r for k, r in train_rows.items() if k > start}, deviation)
        compare_end(case, model, optimizer, end, deviation)
    val = case.read_data(data, "val", dtype)
    for step, row in val_rows.items():
        compare_validation(case, model, read_checkpoint(output, step), val, row, deviation)
    return deviation


def same_bits(one, other, deviation):
    """Another number of ranks: the same bits, in what is logged and in the weights and the optimizer's state."""
    for a, b in zip(read_metrics(one), read_metrics(other)):
        if a.keys() != b.keys():
            deviation.failures.append(f"steps {sorted(b)} are logged, with one rank {sorted(a)}")
            continue
        for step in a:
            for key in ("loss", "lr", "grad_norm", "accuracy"):
                if a[step].get(key) != b[step].get(key):
                    deviation.failures.append(f"{key} of step {step} differs from that of one rank")
    for step in (0, HALF, STEPS):
        a, b = read_checkpoint(one, step), read_checkpoint(other, step)
        if a.keys() != b.keys():
            deviation.failures.append(f"step {step} has {sorted(b)}, with one rank {sorted(a)}")
            continue
        for group in a:
            if a[group].keys() != b[group].keys():
                deviation.failures.append(f"{group} of step {step} has {sorted(b[group])}, with one rank {sorted(a[group])}")
                continue
            for name in a[group]:
                if a[group][name].tobytes() != b[group][name].tobytes():
                    deviation.failures.append(f"{group}/{name} of step {step} differs from that of one rank")


KINDS = ["loss", "lr", "grad norm", "parameters", "statistics", "optimizer", "val loss", "accuracy"]


def report(name, precision, deviation):
    """One row of the table; single precision is for information."""
    cells = [f"{deviation.worst[k]:10.1e}" if k in deviation.worst else f"{'-':>10}" for k in KINDS]
    judged, shown = precision == "f64", 8
    verdict = "" if not judged else "FAILED" if deviation.failures else "ok"
    print(f"{name:<21} {precision} {' '.join(cells)}  {verdict}", flush=True)
    for failure in deviation.failures[:shown] if judged else []:
        print(f"    {failure}")
    if judged and len(deviation.failures) > shown:
        print(f"    and {len(deviation.failures) - shown} more")
    return len(deviation.failures) if judged else 0


def compare_cases(cases, data, folder):
    """Train every case and print its deviations; the outputs by name, and how many failed."""
    outputs, failures = {}, 0
    torch.set_num_threads(1)  # several threads spin, which is slow where other tests run beside it
    torch.manual_seed(0)
    print("largest relative deviation of charl (f32) from PyTorch; accuracy: samples")
    print(f"{'':<25} {' '.join(f'{k:>10}' for k in KINDS)}")
    for i, case in enumerate(cases):
        outputs[case.name] = train(case, data, folder / str(i))
        failed = report(case.name, "f64", compare(case, outputs[case.name], data, torch.float64))
        if failed:
            report(case.name, "f32", compare(case, outputs[case.name], data, torch.float32))
        failures += failed
    return outputs, failures


def compare_ranks(case, data, folder, alone, ranks=2):
    """The case on several ranks: the bits of `alone`, its output on one, which has been compared."""
    deviation = Deviation()
    same_bits(alone, train(case, data, folder / f"ranks{ranks}", ranks), deviation)
    return report(f"{case.name}, {ranks} ranks", "f64", deviation)
