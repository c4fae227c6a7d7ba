"""What tests of models with several inputs or outputs share. A test calls environment.enter() before it imports this module, which takes
$CHARL_BIN_DIR out of the environment: charl warns of variables that it does not know."""
import csv
import os
import re
import subprocess
import sys

import environment

BIN = environment.BIN
os.environ.pop("CHARL_BIN_DIR", None)


def start(*command):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, check=False)


def run(code, *command):
    """Run a program that must end with `code`; returns what it printed."""
    done = start(*command)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n{done.stdout}")
    return done.stdout


def columns(name, *wanted):
    """Of metrics.csv of the run."""
    with open(f"{name}/metrics.csv", encoding="utf-8") as f:
        return [[r[k] for k in wanted] for r in csv.DictReader(f)]


def losses_of(name):
    return [loss for loss, in columns(name, "val/loss") if loss]


def check_ranks(train, name, *wanted, forms=(), stops=True):
    """`train` into the folder `name` with 1 rank, and to the same bits on 2, 3 and 4, in other forms, (name, settings), and after a stop at step 7
    and a resume; so are the columns of metrics.csv."""
    run(0, *train, "--simulate-ranks", 1, "-o", name)
    others = [*((f"{name}{ranks}", ["--simulate-ranks", ranks]) for ranks in (2, 3, 4)), *forms]
    if stops:
        os.environ["CHARL_FAULT"] = "train.stop:7"
        run(75, *train, "-o", "stopped")
        del os.environ["CHARL_FAULT"]
        others.append(("stopped", []))
    same = columns(name, *wanted)
    for other, settings in others:
        run(0, *train, *settings, "-o", other)
        check_same(name, other)
        if columns(other, *wanted) != same:
            sys.exit(f"{other} measures other numbers than {name}: {columns(other, *wanted)}, {same}")


def check_same(name, other):
    said = run(0, BIN / "charl", "checkpoint", "diff", f"{name}/last.h5", f"{other}/last.h5")
    if not re.search("all tensors are equal|^equal", said, re.M):
        sys.exit(f"{other} differs from {name}: {said}")


def refused(config, cases):
    """Of (settings, pattern), what is not refused with a message of that pattern."""
    bad = []
    for settings, wanted in cases:
        done = start(BIN / "charl-train", "-q", config, "-o", "refused", *settings)
        if done.returncode == 0 or not re.search(wanted, done.stdout):
            bad.append(f"{settings}: exit code {done.returncode}, without \"{wanted}\": {done.stdout}")
    return bad
