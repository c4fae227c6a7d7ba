#!/bin/sh
# --trace and --profile: the result is that of a run without them, bit for bit; the time line has all ranks on one clock, and an overlap that
# SQL finds too; windows, wrong options, files that cannot be written, runs that stop.
. "$(dirname "$0")/common.sh"

# line_of FILE RANKS STEPS [HIDDEN]
line_of() {
    checks=$((checks + 1))
    /usr/bin/python3 "$here/check_trace.py" "$@" || fail "time line $*"
}
hidden() { sed -n 's/.*allreduce_hidden_percent=\([0-9.]*\).*/\1/p' log; }

# The same bits, with and without, on one rank, several and simulated ones
expect 0 "plain" ranks 1 mlp.ini -q -o plain train.max_steps=10
expect 0 "1 rank" ranks 1 mlp.ini -o one train.max_steps=10 --trace --profile --trace-steps 4-7
says 1 "^  trace    steps 4 to 7 of 10, time line and profile$"
says 1 "Z trace steps=4-7 file=one/trace.json spans=[0-9]+ clock_error_us=[0-9]+ ms=[0-9]+$"
line_of one/trace.json 1 4
same "traced, 1 rank" plain one
expect 0 "4 ranks" ranks 4 mlp.ini -o four train.max_steps=10 data.cache=none dist.bucket_mb=0.02 --trace=here.json --trace-steps=4-7
says 1 "Z trace steps=4-7 file=here.json spans=[0-9]+ allreduce_hidden_percent=[0-9.]+ "
line_of here.json 4 4 "$(hidden)"
[ ! -e four/trace.json ] || fail "--trace=FILE writes trace.json too"
same "traced, 4 ranks" plain four
checks=$((checks + 1))
grep -q '"cat":"input","name":"read batch"' here.json || fail "the time line has no input"
expect 0 "simulated" ranks 1 mlp.ini -o simulated train.max_steps=10 --simulate-ranks 2x2 --trace --profile
says 1 "Z trace steps=6-10 file=simulated/trace.json "
line_of simulated/trace.json 4 5 "$(hidden)"
same "traced, simulated ranks" plain simulated

# A clock that is a day ahead is put right. With the wrong one its rank would be where it is.
expect 0 "wrong clock" env CHARL_FAULT=train.trace.clock@1:*:86400000000 "$bin/charl-train" mlp.ini -o clock train.max_steps=6 \
    --simulate-ranks 2 --trace
checks=$((checks + 1))
/usr/bin/python3 - <<'PY' || fail "the difference of the clocks is not found"
import json
first = {}
for e in json.load(open("clock/trace.json"))["traceEvents"]:
    if e["ph"] == "X":
        first[e["pid"]] = min(first.get(e["pid"], 1e300), e["ts"])
assert first[1] == 0 and abs(first[0] - 86400e6) < 3600e6, first
PY

# The profile: its rows are the sums of the time line's spans, and its operations those that the log counts; in these steps there is no evaluation.
# Without a time line no file is written.
expect 0 "profile" ranks 1 cnn.ini -v -o profile train.max_steps=10 --profile --trace --trace-steps 7-8
checks=$((checks + 1))
/usr/bin/python3 "$here/check_profile.py" log profile/trace.json profile/metrics.csv 64 || { fail "the profile does not add up"; cat log; }
expect 0 "profile alone" ranks 1 mlp.ini -o alone train.max_steps=2 --profile
says 0 "trace.json"

# Windows
expect 0 "a short run" ranks 1 mlp.ini -o short train.max_steps=3 --trace
says 1 "Z trace steps=2-3 "
expect 0 "one step" ranks 1 mlp.ini -o single train.max_steps=3 --trace --trace-steps=2
line_of single/trace.json 1 1
expect 2 "past the end" ranks 1 mlp.ini -o past train.max_steps=3 --trace --trace-steps=2-4
says 1 "steps 2-4 cannot be traced: the run ends with step 3"
expect 0 "resumed" ranks 1 mlp.ini -o short train.max_steps=5 --trace --trace-steps=2-3
says 1 "warning: nothing is traced: the run resumes after"
says 0 "Z trace "
expect 0 "stopped" env CHARL_FAULT=train.stop:6 "$bin/charl-train" mlp.ini -o stopped --fast-dev-run=9 --trace=stopped.json --trace-steps=4-8
line_of stopped.json 1 2
expect 0 "without a run directory" ranks 1 mlp.ini --fast-dev-run=4 --trace
line_of trace.json 1 2
expect 0 "an evaluation in the window" ranks 1 mlp.ini -o evaluated train.max_steps=6 eval.interval=1 --trace --trace-steps=2-5
line_of evaluated/trace.json 1 4
checks=$((checks + 1))
grep -q '"cat":"host","name":"evaluation"' evaluated/trace.json || fail "the time line has no evaluation"

# What cannot be
for wrong in 0 3-2 x 4- -4 ''; do
    expect 2 "--trace-steps='$wrong'" ranks 1 mlp.ini --dry-run --trace "--trace-steps=$wrong"
    says 1 "trace-steps"
done
expect 2 "steps for nothing" ranks 1 mlp.ini --dry-run --trace-steps=2
says 1 "add one of these"
expect 0 "no such folder" ranks 1 mlp.ini -o unwritten train.max_steps=4 --trace=nowhere/trace.json
says 1 "warning: the trace is not written: nowhere/trace.json"
expect 0 "a full disk" env CHARL_FAULT=io.write@0:*:28 "$bin/charl-train" mlp.ini --fast-dev-run=4 --trace=full.json
says 1 "warning: the trace is not written: full.json"
[ ! -e full.json ] || fail "half a time line is left"

# Two runs in one file, and that with a third
expect 0 "merge" "$bin/charl" trace merge one/trace.json here.json -o both.json
says 1 "^both.json: 2 time lines$"
expect 0 "merge again" "$bin/charl" trace merge both.json trace.json -o both.json
checks=$((checks + 1))
/usr/bin/python3 - <<'PY' || fail "the merged time line is wrong"
import json
parts = [json.load(open(name)) for name in ("one/trace.json", "here.json", "trace.json")]
both = json.load(open("both.json"))
spans = lambda t: [e for e in t["traceEvents"] if e["ph"] == "X"]
assert len(spans(both)) == sum(len(spans(p)) for p in parts)
names = {e["pid"]: e["args"]["name"] for e in both["traceEvents"] if e["name"] == "process_name"}
assert sorted(names) == list(range(6)) and names[0].startswith("mlp: rank 0: ") and names[4].startswith("mlp: rank 3: "), names
first, at = min(p["otherData"]["zero_s"] for p in parts), 0
for p in parts: # each span is where the clock of its machine has it
    for e in spans(p):
        e.update(pid=e["pid"] + at, ts=round(e["ts"] + 1e6 * (p["otherData"]["zero_s"] - first), 1))
    at += p["otherData"]["ranks"]
key = lambda e: (e["pid"], e["tid"], e["name"], e["ts"])  # spans of different names may begin within a rounding of each other
want = sorted((e for p in parts for e in spans(p)), key=key)
got = sorted((dict(e, ts=round(e["ts"], 1)) for e in spans(both)), key=key)
assert len(want) == len(got)
for w, g in zip(want, got):
    assert abs(w.pop("ts") - g.pop("ts")) < 0.2 and w == g, (w, g)
PY
for wrong in mlp.ini digits.h5 . nowhere.json; do
    expect 3 "merge of $wrong" "$bin/charl" trace merge here.json $wrong -o bad.json
    says 1 "^charl: error: $wrong(: | is )"
done
head -n 20 here.json >cut.json
expect 3 "merge of half a file" "$bin/charl" trace merge cut.json -o bad.json
says 1 "cut.json: is not a time line"
[ ! -e bad.json ] || fail "a file is left"
# Moments beyond the year 5138, and more processes than one file may have
sed 's/"zero_s":[0-9.]*/"zero_s":2e11/' here.json >late.json
expect 3 "merge of a late file" "$bin/charl" trace merge late.json -o bad.json
says 1 "late.json: is not a time line"
sed 's/"pid":0,/"pid":4194303,/' one/trace.json >wide.json
expect 0 "merge of a wide file" "$bin/charl" trace merge wide.json -o fine.json
expect 3 "merge of two wide files" "$bin/charl" trace merge wide.json wide.json -o bad.json
says 1 "the time lines have more than 4194304 processes"
expect 2 "merge of nothing" "$bin/charl" trace merge
finish
