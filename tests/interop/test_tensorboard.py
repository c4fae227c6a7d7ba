#!/usr/bin/python3
"""TensorBoard loads what charl writes: scalars, histograms, images, the configuration as text, and hyperparameters of several runs; also while the run is
killed and resumed under a TensorBoard that is watching.

TensorBoard comes from PyPI, into a virtual environment that is kept beside the kernels that the tests compile; exit code 77 means that
it cannot be had. $CHARL_BIN_DIR holds the programs.
"""
import os

import environment

BIN = environment.BIN
environment.enter("tensorboard")

# pylint: disable=wrong-import-position
import csv
import io
import json
import pathlib
import re
import subprocess
import tempfile

import PIL.Image
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing import plugin_event_multiplexer as event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import backend_context
from tensorboard.plugins.hparams import list_session_groups
from tensorboard.util import tensor_util

CONFIG = """[run]
output_dir = runs/one
[data]
path = digits.h5
[model]
type = mlp
hidden = 8
[train]
max_steps = 20
batch_size = 64
[eval]
interval = 5
[checkpoint]
interval = 4
[log]
interval = 1
formats = jsonl, tensorboard
histogram_interval = 5
images = 4
"""


def train(code, *arguments, fault=None):
    """charl-train, which must end with `code`."""
    env = dict(os.environ, **({"CHARL_FAULT": fault} if fault else {}))
    env.pop("CHARL_BIN_DIR", None)
    done = subprocess.run([BIN / "charl-train", "run.ini", "-q", *arguments], env=env, timeout=1500, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == code, f"ended with {done.returncode}, not {code}:\n{done.stdout}"


def check_run(runs, name):
    """The scalars of a run are those of metrics.jsonl, step for step."""
    accumulator = runs.GetAccumulator(f"{name}/tb")
    rows = [json.loads(line) for line in pathlib.Path(f"runs/{name}/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    tags = set()
    for event in ("train", "val"):
        of_event = [row for row in rows if row["event"] == event]
        for key in of_event[0].keys() - {"event", "step", "time", "best"}:
            tags.add(f"{event}/{key}")
            got = accumulator.Tensors(f"{event}/{key}")
            assert [t.step for t in got] == [row["step"] for row in of_event], f"{name}: steps of {event}/{key}"
    scalars = {tag for tag in accumulator.Tags()["tensors"]
               if accumulator.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"}
    assert scalars == tags, f"{name}: {scalars ^ tags}"
    shown = [tag for tag in accumulator.Tags()["tensors"] if accumulator.SummaryMetadata(tag).plugin_data.plugin_name == "histograms"]
    assert len(shown) == 8 and "gradients/fc1.weight" in shown, shown
    for tag in shown:
        assert [t.step for t in accumulator.Tensors(tag)] == [5, 10, 15, 20], f"{name}: steps of {tag}"
        bins = tensor_util.make_ndarray(accumulator.Tensors(tag)[-1].tensor_proto)
        assert bins.shape == (64, 3) and (bins[:, 0] < bins[:, 1]).all() and bins[:, 2].sum() in (784 * 8, 8, 80, 10), f"{tag}: {bins}"
    check_images(accumulator, name)
    text = accumulator.Tensors("config")
    assert b"    [optimizer]\n" in text[0].tensor_proto.string_val[0]
    assert len({t.step for t in text}) == len(text), f"{name}: a text twice"
    print(f"{name}: {len(tags)} scalars, {len(shown)} histograms, texts at {[t.step for t in text]}")


def check_images(accumulator, name):
    """Each evaluation shows the four samples whose class `charl predict` finds the least probable."""
    shown, labels = accumulator.Tensors("worst/images"), accumulator.Tensors("worst/labels")
    assert accumulator.SummaryMetadata("worst/images").plugin_data.plugin_name == "images"
    assert [t.step for t in shown] == [t.step for t in labels] == [5, 10, 15, 20], f"{name}: steps of images"
    for t in shown:
        width, height, *files = t.tensor_proto.string_val
        assert (width, height) == (b"28", b"28") and len(files) == 4, f"{name}: {width} {height}, {len(files)} files"
        for file in files:
            picture = PIL.Image.open(io.BytesIO(file), formats=["PNG"])
            assert (picture.size, picture.mode) == ((28, 28), "L") and picture.getextrema()[1] > 128, "nothing is drawn"
    answers = subprocess.run([BIN / "charl", "predict", f"runs/{name}/last.h5", "digits.h5", "--split=val", "--all"], check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={k: v for k, v in os.environ.items() if k != "CHARL_BIN_DIR"}).stdout
    rows = sorted(csv.DictReader(io.StringIO(answers)), key=lambda row: float(row[f"p_{row['label']}"]))
    lines = labels[-1].tensor_proto.string_val[0].decode().splitlines()
    got = [re.match(r" +\d: row (\d+) of the split is (\d) \([-.e\d]+\), predicted (\d) ", line).groups() for line in lines]
    wanted = [(row["row"], row["label"], row["predicted"]) for row in rows[:4]]
    assert got == wanted, f"{name}: {got} are shown, not {wanted}"
    print(f"{name}: images at {[t.step for t in shown]}")


def check_hparams(runs):
    """The tab HParams has both runs, with their values and their metrics."""
    provider = data_provider.MultiplexerDataProvider(runs, "runs")
    hparams = backend_context.Context(TBContext(data_provider=provider, logdir="runs"))
    request_context = RequestContext()
    experiment = hparams.experiment_from_metadata(request_context, "", True, hparams.hparams_metadata(request_context, ""), [])
    names = {info.name for info in experiment.hparam_infos}
    assert {"optimizer.learning_rate", "model.hidden"} <= names, names
    assert any(info.name.tag == "val/accuracy" for info in experiment.metric_infos)
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0, slice_size=10,
        allowed_statuses=[api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING])
    groups = list_session_groups.Handler(request_context, hparams, "", request).run().session_groups
    rates = sorted(group.hparams["optimizer.learning_rate"].number_value for group in groups)
    assert rates == [0.001, 0.01], rates
    print(f"hyperparameters: {len(names)} of {len(groups)} runs")


def main():
    """Two runs, one of them killed and resumed."""
    subprocess.run([BIN / "charl", "data", "make", "digits", "digits.h5", "-t", "320", "-v", "64"], check=True,
                   stdout=subprocess.DEVNULL, env={k: v for k, v in os.environ.items() if k != "CHARL_BIN_DIR"})
    pathlib.Path("run.ini").write_text(CONFIG, encoding="utf-8")
    train(0, "run.output_dir=runs/two", "optimizer.learning_rate=0.01")
    train(-9, fault="train.backward.kill:11")
    watching = event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": 1000, "text": 1000, "histograms": 1000, "images": 1000}, purge_orphaned_data=True)
    watching.AddRunsFromDirectory("runs")
    watching.Reload()
    assert max(t.step for t in watching.GetAccumulator("one/tb").Tensors("train/loss")) > 8, "nothing to forget"
    train(0)
    fresh = event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": 1000, "text": 1000, "histograms": 1000, "images": 1000}, purge_orphaned_data=True)
    fresh.AddRunsFromDirectory("runs")
    fresh.Reload()
    watching.Reload()
    for runs in (fresh, watching):
        check_run(runs, "one")
        check_run(runs, "two")
    check_hparams(fresh)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
    os.chdir("/")
