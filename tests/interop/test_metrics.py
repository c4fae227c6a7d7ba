#!/usr/bin/python3
"""Metrics of `charl eval --report` on 1 and 3 ranks, whose last batch is uneven, are those of scikit-learn and torchmetrics on the outputs that
`charl predict` writes: classes of which one does not occur, two classes, labels, masks, numbers, and classes of pixels, with labels that do
not count. If it failed, a score would not be comparable with one of another program.

scikit-learn and torchmetrics come from PyPI, beside the distribution's PyTorch; exit code 77 means that they are missing.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import environment

for module in ("torch", "h5py"):
    if importlib.util.find_spec(module) is None:
        print(f"skipped: python3 has no {module}")
        sys.exit(77)
environment.enter("tables")

# pylint: disable=wrong-import-position
import h5py
import numpy as np
import torch
from sklearn import metrics as sklearn
from torchmetrics import functional as torchmetrics

os.environ.pop("CHARL_TEST_DATA", None)  # charl warns of variables that it does not know
warnings.filterwarnings("ignore", message="The y_prob values do not sum to one")  # f32
BIN = environment.BIN
TRAIN, VAL = 18, 23  # batches of 6 in 3 slices: the last of the validation has 5 rows, of which the third rank has 1
MODEL = {"table": "type = mlp\nhidden = 8\n",
         "images": "type = sequential\n[layer c1]\ntype = conv2d\nchannels = 4\nkernel = 3\nactivation = relu\n"
                   "[layer c2]\ntype = conv2d\nchannels = {}\nkernel = 1\n"}


def run(*command, errors=False):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL: {' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stderr if errors else done.stdout


def of_each(function, n, *sides):
    """`function` of each class or label by itself, NaN where it is not defined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = []
        for i in range(n):
            truth, score = (side[i] for side in sides)
            values.append(float(function(truth, score)) if 0 < np.sum(truth) < np.size(truth) else np.nan)
        return values


def calibration_error(p, labels):
    confidence, right, edges = p.max(1), p.argmax(1) == labels, np.linspace(0, 1, 16)
    bins = [(confidence > low) & (confidence <= high) for low, high in zip(edges, edges[1:])]
    return sum(b.mean() * abs(right[b].mean() - confidence[b].mean()) for b in bins if b.any())


def by_class(p, labels):
    """Probabilities [N, C] and classes [N]: {metric: values of scikit-learn and torchmetrics}, and the same of each class."""
    classes = p.shape[1]
    every, predicted = np.arange(classes), p.argmax(1)
    t, y = torch.tensor(p), torch.tensor(labels)
    used = np.union1d(labels, predicted)
    of = {"task": "multiclass", "num_classes": classes}
    arguments = {"y_true": labels, "y_pred": predicted, "zero_division": 0}
    values, tables = {}, {}
    for name, other, function in (("precision", torchmetrics.precision, sklearn.precision_score),
                                  ("recall", torchmetrics.recall, sklearn.recall_score),
                                  ("f1", torchmetrics.f1_score, sklearn.f1_score),
                                  ("iou", torchmetrics.jaccard_index, sklearn.jaccard_score),
                                  ("dice", torchmetrics.f1_score, sklearn.f1_score)):
        values[name] = [function(average="macro", labels=used, **arguments), other(t, y, average="macro", **of)]
        values[f"{name}_micro"] = [function(average="micro", **arguments), other(t, y, average="micro", **of)]
        tables[name] = [function(average=None, labels=every, **arguments), other(t, y, average="none", **of)]
    values["accuracy"] = [sklearn.accuracy_score(labels, predicted), torchmetrics.accuracy(t, y, average="micro", **of)]
    if classes > 2:
        values["top2"] = [sklearn.top_k_accuracy_score(labels, p, k=2, labels=every),
                          torchmetrics.accuracy(t, y, average="micro", top_k=2, **of)]
    each = of_each(sklearn.roc_auc_score, classes, [labels == i for i in every], p.T)
    other = of_each(lambda truth, score: torchmetrics.auroc(torch.tensor(score), torch.tensor(truth).long(), task="binary"), classes,
                    [labels == i for i in every], p.T)
    values["auc"] = [np.nanmean(each), np.nanmean(other)]
    tables["auc"] = [each, other]
    values["ece"] = [calibration_error(p, labels), torchmetrics.calibration_error(t, y, task="multiclass", num_classes=classes, n_bins=15)]
    tables["support"] = [np.bincount(labels, minlength=classes)]
    tables["confusion"] = [sklearn.confusion_matrix(labels, predicted, labels=every), torchmetrics.confusion_matrix(t, y, **of)]
    values["loss"] = [sklearn.log_loss(labels, p, labels=every), torch.nn.functional.nll_loss(t.log(), y)]
    values["perplexity"] = [np.exp(values["loss"][0])]
    return values, tables


def by_label(p, targets):
    """Probabilities and labels of 0 or 1, both [N, L]; with one more extent, masks."""
    labels = p.shape[1]
    p, truth = (np.moveaxis(v, 1, -1).reshape(-1, labels) for v in (p, targets.astype(int)))
    t, y, predicted = torch.tensor(p), torch.tensor(truth), (p > 0.5).astype(int)
    of = {"task": "multilabel", "num_labels": labels}
    values, tables = {}, {}
    for name, other, function in (("precision", torchmetrics.precision, sklearn.precision_score),
                                  ("recall", torchmetrics.recall, sklearn.recall_score),
                                  ("f1", torchmetrics.f1_score, sklearn.f1_score),
                                  ("iou", torchmetrics.jaccard_index, sklearn.jaccard_score),
                                  ("dice", torchmetrics.f1_score, sklearn.f1_score)):
        arguments = {"y_true": truth, "y_pred": predicted, "zero_division": 0}
        values[name] = [function(average="macro", **arguments), other(t, y, average="macro", **of)]
        values[f"{name}_micro"] = [function(average="micro", **arguments), other(t, y, average="micro", **of)]
        tables[name] = [function(average=None, **arguments), other(t, y, average="none", **of)]
    values["accuracy"] = [(predicted == truth).mean(), torchmetrics.accuracy(t, y, average="micro", **of)]
    each = of_each(sklearn.roc_auc_score, labels, truth.T, p.T)
    other = of_each(lambda a, b: torchmetrics.auroc(torch.tensor(b), torch.tensor(a), task="binary"), labels, truth.T, p.T)
    values["auc"], tables["auc"] = [np.nanmean(each), np.nanmean(other)], [each, other]
    tables["support"] = [truth.sum(0)]
    values["loss"] = [torch.nn.functional.binary_cross_entropy(t, y.double())]
    return values, tables


def by_number(outputs, targets):
    targets = targets.astype(float)
    t, y, n = torch.tensor(outputs), torch.tensor(targets), outputs.shape[1]
    rmse = [sklearn.mean_squared_error(targets, outputs, multioutput="raw_values") ** 0.5,
            [torchmetrics.mean_squared_error(t[:, i].contiguous(), y[:, i].contiguous(), squared=False) for i in range(n)]]
    r2 = [sklearn.r2_score(targets, outputs, multioutput="raw_values"), torchmetrics.r2_score(t, y, multioutput="raw_values")]
    return {"mae": [sklearn.mean_absolute_error(targets, outputs), torchmetrics.mean_absolute_error(t, y)],
            "rmse": [np.mean(v) for v in rmse], "r2": [np.mean(np.asarray(v)) for v in r2],
            "loss": [sklearn.mean_squared_error(targets, outputs)]}, {"rmse": rmse, "r2": r2}


def make(path, kind, x, y, **attributes):
    with h5py.File(path, "w") as f:
        f.attrs["charl_format"], f.attrs["charl_version"], f.attrs["kind"] = np.bytes_("dataset"), 1, np.bytes_(kind)
        f.attrs.update(attributes)
        for split, at in (("train", slice(TRAIN)), ("val", slice(TRAIN, None))):
            f[f"{split}/x"], f[f"{split}/y"] = x[at], y[at]


def cases(folder):
    """Name, loss, channels, labels of the validation, and how scores are computed."""
    draw, n = np.random.default_rng(3), TRAIN + VAL
    table, pictures = draw.normal(size=(n, 5)).astype("f4"), draw.integers(0, 256, (n, 1, 4, 3)).astype("u1")
    six, two = draw.integers(0, 5, n), draw.integers(0, 2, n)
    six[[2, n - 3]] = -1
    pixels = draw.integers(0, 4, (n, 4, 3))
    pixels[draw.random(pixels.shape) < 0.2] = -100
    pixels[n - 2] = -1
    make(folder / "six classes.h5", "table", table, six, classes=6)
    make(folder / "two classes.h5", "table", table, two, classes=2)
    make(folder / "labels.h5", "table", table, draw.integers(0, 2, (n, 3)), classes=2)
    make(folder / "masks.h5", "images", pictures, draw.integers(0, 2, (n, 24)).astype("f4"))
    make(folder / "numbers.h5", "regression", table, (draw.normal(size=(n, 3)) * [1, 10, 0.1] + [0, 0, 7]).astype("f4"))
    make(folder / "pixels.h5", "images", pictures, pixels, classes=4)
    make(folder / "two classes of pixels.h5", "images", pictures, np.minimum(pixels, 1), classes=2)
    scores = ["precision", "recall", "f1", "iou", "dice"]
    scores = ["accuracy", "auc", *scores, *(f"{name}_micro" for name in scores)]
    yield "six classes", "table", "cross_entropy", 0, by_class, [*scores, "top2", "perplexity", "ece"]
    yield "two classes", "table", "cross_entropy", 0, by_class, [*scores, "ece"]
    yield "labels", "table", "bce", 0, by_label, scores
    yield "masks", "images", "bce", 2, by_label, scores
    yield "numbers", "table", "mse", 0, by_number, ["mae", "rmse", "r2"]
    yield "pixels", "images", "cross_entropy", 4, by_class, [*scores, "top2", "ece"]
    yield "two classes of pixels", "images", "cross_entropy", 2, by_class, scores


def outputs_of(folder, name, channels):
    """Outputs and targets of the validation, without what does not count."""
    with h5py.File(folder / f"{name}.out.h5") as f, h5py.File(folder / f"{name}.h5") as data:
        outputs, targets = f["output"][...].astype(float), data["val/y"][...]
    if channels == 0:
        counts = targets >= 0 if targets.ndim == 1 else np.ones(len(targets), bool)
        return outputs[counts], targets[counts]
    outputs = outputs.reshape(len(outputs), channels, -1)
    if targets.dtype.kind == "f":
        return outputs, targets.reshape(outputs.shape)
    labels = targets.reshape(len(targets), -1)
    return np.moveaxis(outputs, 1, -1)[labels >= 0], labels[labels >= 0]


def compare(what, got, want, seen):
    got, want = np.asarray([np.nan if v is None else v for v in np.ravel(np.asarray(got, object))], float), np.ravel(np.asarray(want, float))
    assert got.shape == want.shape, f"FAIL: {what}: {got}, not {want}"
    assert np.array_equal(np.isnan(got), np.isnan(want)), f"FAIL: {what}: {got}, not {want}"
    worst = np.max(np.abs(got - want) / np.maximum(1, np.abs(want)), initial=0, where=~np.isnan(want))
    assert worst <= 1e-6, f"FAIL: {what}: {got}, not {want}, {worst:.2e}"
    seen.append(worst)


def check(folder, name, kind, loss, channels, function, scores):
    config, run_dir = folder / f"{name}.ini", folder / name
    config.write_text(f"[data]\npath = {folder / name}.h5\nscale_targets = no\n[model]\n{MODEL[kind].format(channels)}[train]\nloss = {loss}\n"
                      f"batch_size = 6\nslices = 3\nmax_steps = 6\n[optimizer]\nlearning_rate = 0.05\n[eval]\nmetrics = {', '.join(scores)}\n"
                      f"[run]\noutput_dir = {run_dir}\n[device]\nshare = yes\n")
    run(BIN / "charl-train", "--quiet", config)
    said = run(BIN / "charl", "predict", run_dir / "last.h5", "-o", folder / f"{name}.out.h5", errors=True)
    reports = [json.loads(run(*ranks, BIN / "charl", "eval", config, run_dir / "last.h5", "--report=json"))
               for ranks in ([], ["mpirun", "-n", "3", "--oversubscribe", "--bind-to", "none"])]
    values, tables = function(*outputs_of(folder, name, channels))
    seen = []
    said = dict(pair.split("=", 1) for pair in said.splitlines()[-1].split() if "=" in pair)
    for metric in (*scores, "loss"):  # in six digits
        assert abs(float(said[metric]) - np.ravel(values[metric][0])[0]) <= max(1e-6, 5e-6 * abs(float(said[metric]))), (
            f"FAIL: {name}: charl predict says {metric}={said[metric]}, not {values[metric][0]}")
    for ranks, report in zip((1, 3), reports):
        assert set(scores) <= set(values), f"FAIL: {name}: {set(scores) - set(values)} is not compared"
        for metric in [*scores, "loss"]:
            for want in values[metric]:
                compare(f"{name}, {ranks} ranks, {metric}", report[metric], want, seen)
        each = report["classes" if "classes" in report else "labels" if "labels" in report else "targets"]
        for metric, of in tables.items():
            got = report["confusion"] if metric == "confusion" else [row[metric] for row in each]
            for want in of:
                compare(f"{name}, {ranks} ranks, {metric} of each", got, want, seen)
    assert reports[0].keys() == reports[1].keys() and len(seen) >= 2 * 2 * (len(scores) - 1)
    print(f"{name}: {len(seen)} comparisons, largest difference {max(seen):.1e}", flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="charl-interop-") as name:
        folder = pathlib.Path(name)
        for case in cases(folder):
            check(folder, *case)


main()
