#!/usr/bin/python3
"""Perfetto's trace processor loads the time lines of --trace, of 1 rank and of 4, and SQL finds the overlap that the log claims, within 2 points.

The package `perfetto` comes from PyPI; the trace processor itself is a program that it fetches, or that $TRACE_PROCESSOR names. Exit code 77:
one of them cannot be had; train/trace then has the same query on tables of sqlite. $CHARL_BIN_DIR holds the programs.
"""
import os

import environment

BIN = environment.BIN
environment.enter("perfetto", ["perfetto"])

# pylint: disable=wrong-import-position
import pathlib
import re
import subprocess
import sys
import tempfile

from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

QUERY = (pathlib.Path(__file__).resolve().parent.parent / "support" / "overlap.sql").read_text(encoding="utf-8")
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


def load(path):
    """A trace processor with the file."""
    program = os.environ.get("TRACE_PROCESSOR")
    try:
        return TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=program) if program else TraceProcessorConfig())
    except (OSError, subprocess.CalledProcessError) as error:  # it cannot be fetched
        print(f"skipped: no trace processor: {error}")
        sys.exit(77)


def main():
    """Train, trace, load, ask."""
    env = {name: value for name, value in os.environ.items() if name != "CHARL_BIN_DIR"}
    subprocess.run([BIN / "charl", "data", "make", "digits", "digits.h5", "-t", "320", "-v", "100"], check=True, env=env,
                   stdout=subprocess.DEVNULL)
    pathlib.Path("mlp.ini").write_text(CONFIG, encoding="utf-8")
    for ranks in (1, 4):
        command = [BIN / "charl-train", "mlp.ini", f"run.output_dir=run{ranks}", "--trace"]
        if ranks > 1:
            command = ["mpirun", "-q", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
        done = subprocess.run(command, env=env, timeout=600, check=True, stdout=subprocess.PIPE, text=True)
        line = re.search(r" trace steps=7-12 file=(\S+) spans=(\d+)(?: allreduce_hidden_percent=([0-9.]+))?", done.stdout)
        with load(line[1]) as processor:
            spans = next(processor.query("SELECT COUNT(*) AS n FROM slice")).n
            names = sorted(row.name for row in processor.query("SELECT name FROM process WHERE name LIKE 'rank %'"))
            hidden = next(processor.query(QUERY)).hidden
        assert spans == int(line[2]), (spans, line[0])
        assert [name.split(":")[0] for name in names] == [f"rank {i}" for i in range(ranks)], names
        if ranks > 1:
            assert abs(100 * hidden - float(line[3])) < 2, (hidden, line[0])
        else:
            assert hidden is None and line[3] is None, (hidden, line[0])
        print(f"{ranks} ranks: {spans} spans, hidden {hidden}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
