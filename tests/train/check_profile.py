"""The tables of charl-train --profile, compared with the time line of the same steps: nothing here depends on how fast they were.

    check_profile.py LOG TRACE METRICS_CSV BATCH

Every name of the time line is a row or one of "others"; a row has the sum of its spans; all kernels together have the operations that the log
counts. Fails by an assertion.
"""
import csv
import json
import pathlib
import re
import sys

log, trace, metrics, batch = pathlib.Path(sys.argv[1]).read_text(), json.loads(pathlib.Path(sys.argv[2]).read_text()), sys.argv[3], int(sys.argv[4])
steps = trace["otherData"]["last_step"] - trace["otherData"]["first_step"] + 1

tables, others, shown = {}, {}, None
for line in log.splitlines():
    if m := re.match(r"  (layer|kernel) +ms +% launches", line):
        shown = m[1]
        tables[shown] = []
    elif m := re.match(r"  others +([0-9.]+) +([0-9.]+) +\((\d+) more\)", line):
        others[shown] = float(m[1]), float(m[2]), int(m[3])
    elif m := re.match(r"  (\S+) +([0-9.]+) +([0-9.]+) +([0-9.e+]+) +(\S+) +(\S+) +", line):
        tables[shown].append((m[1], float(m[2]), float(m[3]), float(m[4]), m[5]))
assert sorted(tables) == ["kernel", "layer"] and set(others) <= set(tables), (tables, others)


def label(name):
    return re.sub(r"(?<![A-Za-z0-9])\d+\.", "*.", name) if name else "(copies)"


def is_of(row, name):
    head, dots, tail = row.partition("..")  # a long name is shortened in the middle
    return name.startswith(head) and name.endswith(tail) if dots else row == name


def near(got, want, printed):
    return abs(got - want) <= printed * 0.51 + 1e-3 * abs(want)  # rounded once, and the spans of the time line before


lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "thread_name"}
spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and lanes[e["pid"], e["tid"]] in ("compute", "communicate")]
total_ms = sum(e["dur"] for e in spans) / steps * 1e-3
assert near(float(re.search(r"its kernels ([0-9.]+) ms", log)[1]), total_ms, 1e-3), total_ms
for table, rows in tables.items():
    sums = {}
    for e in spans:
        s = sums.setdefault(label(e.get("args", {}).get("layer", "")) if table == "layer" else e["name"], [0, 0, 0])
        for k, x in enumerate((e["dur"] * 1e-3, 1, e.get("args", {}).get("flop", 0))):
            s[k] += x / steps
    left = dict(sums)
    for row, ms, percent, launches, gflop in rows:
        found = [n for n in left if is_of(row, n) and near(ms, left[n][0], 1e-3) and near(launches, left[n][1], 0)]
        assert found, (table, row, ms, launches, left)
        want = left.pop(found[0])
        assert near(percent, 100 * want[0] / total_ms, 0.1), (row, percent)
        if table == "layer" and want[2] > 0:  # a layer's operations belong to its longest kernel
            per_s = want[2] / want[0] * 1e-6
            assert near(float(gflop), per_s, 0.1 if per_s < 100 else 1), (row, gflop, per_s)
    assert rows == sorted(rows, key=lambda r: -r[1]), table
    ms, percent, count = others.get(table, (0, 0, 0))
    rest = sum(s[0] for s in left.values())
    assert count == len(left) and near(ms, rest, 1e-3) and near(percent, 100 * rest / total_ms, 0.1), (table, count, ms, left)
    assert table == "kernel" or "conv2.conv2d" in sums, sums

step, tflops = re.search(r"train step=(\d+)/.* tflops=(\S+)", log).groups()
speed = {r["step"]: float(r["samples_per_s"]) for r in csv.DictReader(open(metrics)) if r["samples_per_s"]}
wanted, got = float(tflops) * 1e12 * batch / speed[step], sum(e.get("args", {}).get("flop", 0) for e in spans) / steps
assert abs(got / wanted - 1) < 1e-2, (got, wanted)
print(f"{len(spans)} spans, {', '.join(f'{len(rows)} rows by {t}' for t, rows in tables.items())}, {got:.6g} operations a step")
