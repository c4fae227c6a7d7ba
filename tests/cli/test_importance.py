#!/usr/bin/python3
"""`charl eval --importance`: the changes of loss and metrics are those of predictions for a table whose column holds values of other rows; all columns
of one category change together; 1 and 3 ranks print the same. $CHARL_BIN_DIR holds the programs.
"""
import csv
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", ""))
ROWS = 60


def run(code, *command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == code, f"{command}: {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def table(text):
    """Column: numbers of its line."""
    lines = text.splitlines()
    return {line.split()[0]: list(map(float, line.split()[1:])) for line in lines[4:]}


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as f:
        out = csv.writer(f)
        out.writerow(["size", "town", "noise", "price"])
        out.writerows(rows)


def mae(path):
    """What the model says of the rows of a table."""
    run(0, BIN / "charl", "predict", "run", path, "-o", "p.csv")
    with open("p.csv", encoding="utf-8") as f:
        return statistics.mean(abs(float(r["prediction_price"]) - float(r["target_price"])) for r in csv.DictReader(f))


def main():
    draw = random.Random(5)
    rows = [[f"{draw.gauss(0, 1):.3f}", draw.choice(["Ulm", "Bonn", "Kiel"]), f"{draw.gauss(0, 1):.3f}"] for _ in range(ROWS)]
    for row in rows:
        row.append(f"{3 * float(row[0]) + (4 if row[1] == 'Ulm' else 0):.3f}")
    write("all.csv", rows)
    run(0, BIN / "charl", "data", "import", "csv", "all.csv", "--label", "price", "--regression", "-o", "all.h5")
    pathlib.Path("t.ini").write_text("[data]\npath = all.h5\n[model]\ntype = mlp\nhidden = 8\n[train]\nbatch_size = 12\nslices = 6\nmax_steps = 60\n"
                                     "[optimizer]\nlearning_rate = 0.03\n[device]\nshare = yes\n", encoding="utf-8")
    run(0, BIN / "charl-train", "-q", "t.ini", "-o", "run")
    one = run(0, BIN / "charl", "eval", "run", "--split", "train", "--importance=40")
    three = run(0, "mpirun", "--oversubscribe", "--bind-to", "none", "-n", "3", BIN / "charl", "eval", "run", "--split", "train", "--importance=40")
    assert one == three, f"{one}{three}"
    assert re.match(r"train step=60 loss=\S+ mae=\S+\n\nchanges with a column permuted, mean and deviation of 40\ncolumn  ", one), one
    # A rank that cannot permute ends the job: the others do not wait for its evaluation.
    failed = run(4, "mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", "-x", "CHARL_FAULT=data.permute@1:2",
                 BIN / "charl", "eval", "run", "--split", "train", "--importance=2")
    assert "data.permute" in failed, failed
    changes = table(one)
    assert list(changes)[2] == "noise" and set(changes) == {"size", "town", "noise"}, one
    assert list(changes.values()) == sorted(changes.values(), key=lambda v: -v[0]), one
    # The mean over all permutations: each value with each row, as a table of ROWS * ROWS rows. 40 permutations estimate it.
    whole = mae("all.csv")
    for k, name in enumerate(("size", "town", "noise")):
        write("every.csv", [row[:k] + [other[k]] + row[k + 1:] for row in rows for other in rows])
        want = mae("every.csv") - whole
        mean, deviation = changes[name][2:]
        assert deviation > 0 and abs(mean - want) < 4 * deviation / 40 ** 0.5 + 0.03 * abs(want), f"{name}: {mean} +- {deviation}, not {want}"
    single = run(0, BIN / "charl", "eval", "run", "--split", "train", "--importance=1")
    assert re.search(r"^size +\+\S+ +- +\+\S+ +-$", single, re.M), single
    run(0, BIN / "charl", "data", "make", "digits", "digits.h5", "--train", "40", "--val", "20")
    run(0, BIN / "charl-train", "-q", "t.ini", "data.path=digits.h5", "train.max_steps=2", "-o", "digits")
    assert "digits.h5 holds images, which have no columns" in run(2, BIN / "charl", "eval", "digits", "--importance=2")
    assert "--importance does not go with --report" in run(2, BIN / "charl", "eval", "run", "--importance=2", "--report")


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    main()
    os.chdir("/")
print("importance")
