#!/usr/bin/python3
"""`charl compare`: the table holds final and best values, differing keys stand with their runs, and with --seeds a difference of 0.3 % that
the spread over seeds hides is found by pairs, with the interval that Student's t gives.

The runs are written by this test, so that their values are known. $CHARL_BIN_DIR holds the programs.
"""
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", ""))
T_975 = {2: 4.302653, 4: 2.776445}  # degrees of freedom: quantile


def charl(code, *arguments):
    """charl, which must end with `code`."""
    done = subprocess.run([BIN / "charl", *arguments], timeout=1500, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode == code, f"charl {' '.join(arguments)} ended with {done.returncode}, not {code}:\n{done.stdout}"
    return done.stdout


def write_run(name, seed, rate, values, monitor="val/accuracy", extra=""):
    """A run with these accuracies."""
    path = pathlib.Path(name)
    path.mkdir()
    rows = []
    metric = monitor.removeprefix("val/") if "." in monitor else "accuracy"
    for i, value in enumerate(values):
        rows.append(f'{{"event":"train","step":{100 * i + 100},"epoch":1,"loss":{2 - i},"lr":0.1,"grad_norm":1,"samples":1,'
                    f'"samples_per_s":5000,"step_ms":20,"data_ms":0,"comm_ms":0,"comm_exposed_ms":0,"mem_bytes":1,'
                    f'"elapsed_s":{70 * i + 70},"time":1}}\n'
                    f'{{"event":"val","step":{100 * i + 100},"epoch":1,"loss":0.5,"{metric}":{value:.9g},"best":true,'
                    f'"elapsed_s":{70 * i + 72},"time":1}}\n')
    (path / "metrics.jsonl").write_text("".join(rows), encoding="utf-8")
    (path / "config.ini").write_text(f"[run]\nname = {name}\noutput_dir = /x/{name}\nseed = {seed}\n\n[train]\nbatch_size = 100\n{extra}\n"
                                     f"[optimizer]\nlearning_rate = {rate}\n\n[checkpoint]\nmonitor = {monitor}\nmode = max\n\n"
                                     f"[log]\ninterval = {seed}\n", encoding="utf-8")
    (path / "train.log").write_text("2026-11-22T10:00:00Z start step=0/10 ranks=1\n2026-11-22T12:00:00Z stopped step=10\n", encoding="utf-8")


def interval(line):
    """Mean, low and high of a line of a comparison, and the unpaired low and high."""
    number = r"([+-]\d[\d.e-]*)"
    found = re.search(rf"\s+(\d+)\s+{number}\s+{number} to {number}\s+(differ|may be equal)\s+{number} to {number}$", line)
    assert found, line
    return int(found[1]), float(found[2]), float(found[3]), float(found[4]), found[5], float(found[6]), float(found[7])


def check_table():
    """Values and differences of single runs."""
    write_run("one", 1, 0.1, [0.5, 0.75, 0.7])
    write_run("two", 1, 0.2, [0.25, 0.5], extra="epochs = 7\n")
    text = charl(0, "compare", "one", "two")
    lines = text.splitlines()
    assert lines[0].split() == ["run", "state", "steps", "time", "samples/s", "best", "train/loss", "val/loss", "val/accuracy"], text
    write_run("named", 1, 0.1, [0.5, 0.75, 0.7], monitor="val/kind.accuracy")
    assert "val/kind.accuracy=0.75 at step 200" in charl(0, "compare", "one", "named")
    assert lines[1].split() == "one stopped 300 3m32s 5000 val/accuracy=0.75 at step 200 0 0.5 0.7".split(), text
    assert lines[2].split() == "two stopped 200 2m22s 5000 val/accuracy=0.5 at step 200 1 0.5 0.5".split(), text
    assert "configurations differ in" in text
    assert re.search(r"\n  optimizer\.learning_rate +0\.1: one\n +0\.2: two\n", text), text
    assert re.search(r"\n  train\.epochs +\(not set\): one\n +7: two\n", text), text
    assert "output_dir" not in text and "run.name" not in text
    assert charl(0, "compare", "one").count("\n") == 2
    one = charl(0, "compare", "one")
    for checkpoint in ("one/best.h5", "one/checkpoints/step-00000200.h5"):  # stand for the run
        assert charl(0, "compare", checkpoint) == one
    write_run("again", 1, 0.1, [0.5, 0.75, 0.7])
    assert "configurations are the same" in charl(0, "compare", "one", "again")


def check_many_metrics():
    """Numbers of any number of metrics stand at the right; a row of a step that no run can have is left out."""
    write_run("many", 1, 0.1, [0.5])
    metrics = ",".join(f'"accuracy_of_class_{i}":0.25' for i in range(40))
    with open("many/metrics.jsonl", "a", encoding="utf-8") as f:
        f.write(f'{{"event":"val","step":200,"epoch":1,"loss":0.5,"accuracy":0.75,{metrics},"elapsed_s":80,"time":1}}\n')
        f.write('{"event":"val","step":3e35,"epoch":1,"loss":0.5,"accuracy":0.9,"elapsed_s":90,"time":1}\n')
        f.write('{"event":"train","step":300,"epoch":1,"loss":0.5,"elapsed_s":1e78,"time":1}\n')
    head, row = charl(0, "compare", "many").splitlines()
    assert "val/accuracy=0.75 at step 200" in row and " 200  1m20s " in row, row
    for name in re.finditer(r"val/accuracy_of_class_\d+", head):
        assert row[:name.end()].endswith(" 0.25"), (name, row)


def check_seeds():
    """A planted difference, found in pairs only."""
    draw = random.Random(7)
    a = [0.90 + draw.gauss(0, 0.01) for _ in range(5)]  # the luck of a seed: 1 %
    b = [v + 0.003 + draw.gauss(0, 0.0006) for v in a]  # the same luck, and 0.3 %
    for seed in range(5):
        write_run(f"a{seed}", seed, 0.1, [a[seed] - 0.1, a[seed], a[seed] - 0.05])
        write_run(f"b{seed}", seed, 0.3, [b[seed] - 0.2, b[seed], b[seed] - 0.05])
    runs = [f"{group}{seed}" for seed in range(5) for group in "ab"]
    text = charl(0, "compare", "--seeds", *runs)
    assert "  A  seeds 0, 1, 2, 3, 4; optimizer.learning_rate = 0.1\n" in text, text
    assert "  B  seeds 0, 1, 2, 3, 4; optimizer.learning_rate = 0.3\n" in text, text
    # mean and deviation of each configuration; the last value of a run is 0.05 below its best
    rows = [l.split() for l in text.splitlines() if re.match(r"  [AB] +5 ", l)]
    for row, values in zip(rows, (a, b)):
        want = [statistics.mean(values), statistics.stdev(values), statistics.mean(values) - 0.05, statistics.stdev(values)]
        assert all(abs(float(have) - x) < 1e-4 * abs(x) for have, x in zip(row[2:], want)), (row, want)
    assert len(rows) == 2, text
    # any pair, any metric
    for k in (1, 2, 3):  # folds are pairs as seeds are
        write_run(f"fold-c{k}", 7, 0.1, [0.5 + k / 100], extra=f"\n[data]\nfold = {k}/3\n")
        write_run(f"fold-d{k}", 7, 0.3, [0.6 + k / 100], extra=f"\n[data]\nfold = {k}/3\n")
    folds = charl(0, "compare", "--seeds", *(f"fold-{group}{k}" for k in (1, 2, 3) for group in "cd"))
    assert "  A  seeds 7 fold 1/3, 7 fold 2/3, 7 fold 3/3; optimizer.learning_rate = 0.1\n" in folds, folds
    assert re.search(r"A +3 +0\.52 +0\.01 ", folds) and re.search(r"best val/accuracy +3 +\+0\.1 ", folds), folds
    assert "have the same configuration and the same seed" in charl(3, "compare", "--seeds", "fold-c1", "fold-c1", "fold-c2")
    swapped = charl(0, "compare", "--seeds", *runs, "--reference", "b2/")
    assert "  A - B " in swapped and "  B - A " not in swapped, swapped
    assert interval(next(l for l in swapped.splitlines() if l.startswith("  best")))[1] == -interval(next(
        l for l in text.splitlines() if l.startswith("  best")))[1], swapped
    assert "  best val/loss " in charl(0, "compare", "--seeds", *runs, "--metric", "val/loss")
    assert "  final train/loss " in charl(0, "compare", "--seeds", *runs, "--metric", "train/loss")
    assert "has no value of val/nothing" in charl(3, "compare", "--seeds", *runs, "--metric", "val/nothing")
    assert "the reference nobody is none of the runs" in charl(2, "compare", "--seeds", *runs, "--reference", "nobody")
    assert "--metric needs --seeds" in charl(2, "compare", *runs, "--metric", "val/loss")
    many = [f"m{i}" for i in range(27)]
    for i, name in enumerate(many):
        write_run(name, 1, 0.001 * (i + 1), [0.5])
    assert "more than 26 configurations" in charl(3, "compare", "--seeds", *many)
    assert "  Z - A " in charl(0, "compare", "--seeds", *many[:26])
    alone = charl(0, "compare", "--seeds", "a0", "a1")
    assert re.search(r"^  A +2 ", alone, re.M) and " - A" not in alone, alone
    d = [y - x for x, y in zip(a, b)]
    half = T_975[4] * statistics.stdev(d) / 5 ** 0.5
    for what in ("best", "final"):
        line = next(l for l in text.splitlines() if l.startswith(f"  {what} val/accuracy"))
        pairs, mean, low, high, verdict, welch_low, welch_high = interval(line)
        assert pairs == 5 and abs(mean - statistics.mean(d)) < 2e-7, line
        assert abs(low - (statistics.mean(d) - half)) < 2e-6 and abs(high - (statistics.mean(d) + half)) < 2e-6, line
        assert verdict == "differ" and low > 0, line
        assert welch_low < 0 < welch_high, "the spread of the seeds does not hide the difference: the test shows nothing"
        spread = ((statistics.variance(a) + statistics.variance(b)) / 5) ** 0.5
        assert abs((welch_high - welch_low) / 2 - 2.306 * spread) < 0.01 * spread, line  # about 8 degrees of freedom
    # No difference: the interval holds 0.
    for seed in range(3):
        write_run(f"c{seed}", seed, 0.5, [a[seed] + (-0.001, 0.0015, -0.0002)[seed]])
    text = charl(0, "compare", "-s", "a0", "a1", "a2", "c0", "c1", "c2", "a3")
    line = next(l for l in text.splitlines() if l.startswith("  best"))
    assert interval(line)[0] == 3 and interval(line)[4] == "may be equal", line
    assert "one pair only" in charl(0, "compare", "-s", "a0", "a1", "c0")


def check_errors():
    """Runs that cannot be compared."""
    assert "the same configuration and the same seed" in charl(3, "compare", "-s", "one", "again")
    assert "no seed is in both groups" in charl(3, "compare", "-s", "a0", "c1")
    write_run("loss", 1, 0.9, [1], monitor="val/loss")
    assert "loss monitors val/loss, but a1 monitors val/accuracy" in charl(3, "compare", "-s", "a1", "loss")
    pathlib.Path("b1/config.ini").unlink()
    assert "b1: has no config.ini that tells its seed" in charl(3, "compare", "-s", "a1", "b1")
    assert "nothing: there is no such run: No such file" in charl(3, "compare", "a1", "nothing")
    pathlib.Path("empty").mkdir()
    assert "empty is not a run directory" in charl(3, "compare", "a1", "empty")
    pathlib.Path("a1/config.ini").write_text("[run]\nname = \x1b[2Jevil\n", encoding="utf-8")
    assert "\x1b" not in charl(0, "compare", "a1"), "a name steers the terminal"


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    check_table()
    check_many_metrics()
    check_seeds()
    check_errors()
    os.chdir("/")
print("tables, seeds and errors")
