"""A time line of charl-train --trace, checked without Perfetto: shape, order, ranks, and the overlap that the log claims.

    check_trace.py TRACE RANKS STEPS [HIDDEN_PERCENT]

The query of tests/support/overlap.sql runs on tables of sqlite that have Perfetto's names. Prints one line; fails by an assertion.
"""
import json
import pathlib
import sqlite3
import sys

PATH, RANKS, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
HIDDEN = float(sys.argv[4]) if sys.argv[4:] else None
trace = json.loads(pathlib.Path(PATH).read_text(encoding="utf-8"))
assert trace["displayTimeUnit"] == "ms"
other = trace["otherData"]
assert other["ranks"] == RANKS and other["last_step"] - other["first_step"] + 1 == STEPS, other

threads, processes, spans = {}, {}, {}
for event in trace["traceEvents"]:
    key = (event["pid"], event.get("tid"))
    if event["ph"] == "M" and event["name"] == "thread_name":
        assert key not in threads, f"two names of {key}"
        threads[key] = event["args"]["name"]
    elif event["ph"] == "M" and event["name"] == "process_name":
        processes[event["pid"]] = event["args"]["name"]
    elif event["ph"] == "X":
        assert event["ts"] >= 0 and event["dur"] >= 0, event
        spans.setdefault(key, []).append((round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000), event))
assert sorted(processes) == list(range(RANKS)), processes
assert all(name.startswith(f"rank {pid}: ") for pid, name in processes.items()), processes
assert set(spans) == set(threads), set(spans) ^ set(threads)
assert sum(map(len, spans.values())) == other["spans"] and other["lost"] == 0, other

for key, all_of in spans.items():
    name, stack = threads[key], []
    all_of.sort(key=lambda s: (s[0], -s[1]))
    for begin, end, event in all_of: # what overlaps is nested, and only the host's is
        while stack and stack[-1] <= begin:
            stack.pop()
        assert not stack or end <= stack[-1] + 1, f"{name}: {event} reaches out of what holds it"
        assert name == "host" or not stack, f"{name}: {event} overlaps another"
        stack.append(end)

for pid in range(RANKS):
    mine = {threads[key]: all_of for key, all_of in spans.items() if key[0] == pid}
    steps = [e["name"] for _, _, e in mine["host"] if e["name"].startswith("step ")]
    assert steps == [f"step {i}" for i in range(other["first_step"], other["last_step"] + 1)], steps
    for phase in ("data", "forward and backward", "optimizer"):
        assert sum(e["name"] == phase for _, _, e in mine["host"]) == STEPS, f"rank {pid}: {phase}"
    kernels = [e for _, _, e in mine["compute"] if e["args"].get("layer")]
    assert len(kernels) >= 5 * STEPS and any(e["args"].get("flop", 0) > 0 for e in kernels), f"rank {pid}: {len(kernels)} kernels"
    assert ("all-reduce" in mine or "communicate" in mine) == (RANKS > 1), sorted(mine)

# The windows of all ranks are one: they meet in every step.
first = [min(s[0] for key, all_of in spans.items() if key[0] == pid for s in all_of) for pid in range(RANKS)]
last = [max(s[1] for key, all_of in spans.items() if key[0] == pid for s in all_of) for pid in range(RANKS)]
assert max(first) < min(last), f"the ranks are not on one time line: {first}, {last}"

db = sqlite3.connect(":memory:")
db.executescript("CREATE TABLE slice(ts, dur, name, track_id); CREATE TABLE thread_track(id, utid); CREATE TABLE thread(utid, upid, name);")
for number, (key, all_of) in enumerate(spans.items()):
    db.execute("INSERT INTO thread VALUES (?, ?, ?)", (number, key[0], threads[key]))
    db.execute("INSERT INTO thread_track VALUES (?, ?)", (number, number))
    db.executemany("INSERT INTO slice VALUES (?, ?, ?, ?)", [(b, e - b, event["name"], number) for b, e, event in all_of])
sql = (pathlib.Path(__file__).parent.parent / "support" / "overlap.sql").read_text(encoding="utf-8")
hidden = db.execute(sql).fetchone()[0]
if RANKS > 1:
    assert abs(hidden - other["all_reduce_hidden"]) < 0.02, (hidden, other)
    assert HIDDEN is None or abs(100 * hidden - HIDDEN) < 2, f"{100 * hidden} %, the log says {HIDDEN} %"
else:
    assert hidden is None and other["all_reduce_hidden"] is None, (hidden, other)
print(f"{PATH}: {RANKS} ranks, {other['spans']} spans, all-reduce hidden: "
      f"{'none' if hidden is None else f'{100 * hidden:.1f} %'}, first moments {[f / 1e9 for f in first]}")
