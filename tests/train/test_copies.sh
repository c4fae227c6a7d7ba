#!/bin/sh
# Devices that cannot compute in the memory that ranks share: lanes and sums are copied, in chunks, and change no bit. A
# CPU device is made to copy. And the times of communication that every row has.
. "$(dirname "$0")/common.sh"

# Several chunks of gradients (of 1 Mi values) in a bucket; 3 ranks have two lanes each, nearly.
wide() { # wide RANKS DIRECTORY SETTINGS...
    _ranks=$1 _dir=$2
    shift 2
    expect 0 "$_dir" ranks "$_ranks" mlp.ini -q -o "$_dir" model.hidden=1600,1024 train.epochs=1 train.batch_size=16 "$@"
}
wide 2 shared train.max_steps=3
CHARL_FAULT='device.copies:*'
export CHARL_FAULT
wide 2 copied train.max_steps=3
same "copied on 2 ranks" shared copied
CHARL_FAULT='device.copies@1:*'
wide 3 mixed train.max_steps=3 dist.overlap=no
same "copied on the second of 3 ranks" shared mixed
if [ -n "$long" ]; then
    for setting in dist.reduce_dtype=bf16 dist.shard=optimizer train.grad_accum_steps=2; do
        unset CHARL_FAULT
        wide 2 as-is train.max_steps=3 --overwrite $setting
        export CHARL_FAULT='device.copies:*'
        wide 2 long train.max_steps=3 --overwrite $setting
        same "$setting, copied" as-is long
    done
fi
unset CHARL_FAULT

# What is copied takes memory of the device beside the window's: one lane and the sum of 2.9 million values.
checks=$((checks + 1))
python3 - <<'PY' || fail "nothing was copied"
import json
shared, copied = [json.loads(open(d + "/metrics.jsonl").readline())["mem_bytes"] for d in ("shared", "copied")]
assert copied - shared > 2 * 4 * 2900000, (shared, copied)
PY

# row_times WHAT DIRECTORY CONDITION: of comm_ms (c) and its exposed part (e) in every row of training
row_times() {
    checks=$((checks + 1))
    python3 - "$2" "$3" <<'PY' || fail "$1: not all rows have $3"
import csv, json, sys
rows = [r for r in csv.DictReader(open(sys.argv[1] + "/metrics.csv")) if r["train/loss"]]
lines = [json.loads(l) for l in open(sys.argv[1] + "/metrics.jsonl")]
lines = [l for l in lines if l["event"] == "train"]
assert len(rows) == len(lines) > 0
for r, l in zip(rows, lines):
    c, e = float(r["comm_ms"]), float(r["comm_exposed_ms"])
    assert c == l["comm_ms"] and e == l["comm_exposed_ms"], l
    assert eval(sys.argv[2]), (c, e)
PY
}
row_times "2 ranks" copied '0 < e <= c < l["step_ms"]'
row_times "no overlap" mixed '0 < e and c - e <= 1e-3 * c'
expect 0 "peer" ranks 2 mlp.ini -q -o peer train.max_steps=3 dist.allreduce=peer
row_times "peer" peer '0 <= e == c and (r is rows[0] or e > 0)'
expect 0 "one rank" ranks 1 mlp.ini -v --progress=plain -o alone train.max_steps=3
says 3 ' comm_ms=0.000 comm_exposed_ms=0.000 '
row_times "one rank" alone 'c == 0 and e == 0'

# steps_fill WHAT DIRECTORY RELATION: rows and evaluations come one after another, and the durations of the steps together are RELATION to
# the time that has passed, within the rounding of elapsed_s to milliseconds.
steps_fill() {
    checks=$((checks + 1))
    python3 - "$2" "$3" <<'PY' || fail "$1: the durations of the steps are not the time that passed"
import json, sys
lines = [l for l in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "elapsed_s" in l]
assert all(a["elapsed_s"] <= b["elapsed_s"] for a, b in zip(lines, lines[1:])), lines
rows = [l for l in lines if l["event"] == "train"]
steps = sum((b["step"] - a["step"]) * b["step_ms"] for a, b in zip(rows, rows[1:])) * 1e-3
passed = rows[-1]["elapsed_s"] - rows[0]["elapsed_s"]
assert len(rows) > 5 and all(r["step_ms"] > 0 for r in rows), rows
assert abs(steps - passed) <= 2e-3 if sys.argv[2] == "all" else steps <= passed + 2e-3, (steps, passed)
PY
}
for n in 1 2; do
    expect 0 "rows of $n ranks" ranks $n mlp.ini -q -o rows-$n train.epochs=4 eval.interval=0 checkpoint.interval=0
    steps_fill "$n ranks" rows-$n all
done
expect 0 "rows of 3 steps" ranks 1 mlp.ini -q -o rows-of-3 train.epochs=4 log.interval=3 eval.interval=0 checkpoint.interval=0
steps_fill "rows of 3 steps" rows-of-3 all
expect 0 "rows between evaluations" ranks 1 mlp.ini -q -o pauses train.epochs=8 eval.interval=2 checkpoint.interval=3
steps_fill "rows between evaluations" pauses part
finish
