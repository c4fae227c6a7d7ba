#!/usr/bin/env python3
"""The table of devices in docs/devices.md, from the reports in this folder, which `charl selftest --report` has written.

    devices/table.py            write the table anew
    devices/table.py --check    exit code 1: the page has another one, or a report is not complete

A device is compared with PoCL 3.1's report, operator by operator. The name of a file is the name of the device in the
table: h200.json has the row h200. Needs nothing but Python.
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs" / "devices.md"
REFERENCE = "pocl-3.1"
BEGIN, END = "<!-- made by devices/table.py -->\n", "<!-- end -->\n"
TYPES = ("f32", "bf16")
MOST_NAMED = 3
HEAD = """| report | device | platform, driver | f32 | bf16 | copy, GB/s | f32, GFLOP/s | launch, us | date |
|---|---|---|---|---|---|---|---|---|
"""


def read():
    """Reports by name, the reference first."""
    reports = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
    for name, report in reports.items():
        missing = [key for key in ("device", "arithmetic", "speed", *(f"operators {t}" for t in TYPES)) if key not in report]
        if missing:
            sys.exit(f"devices/{name}.json is not complete: it lacks {', '.join(missing)}")
    return {REFERENCE: reports.pop(REFERENCE), **reports}


def compared(report, reference, dtype):
    """In how many operators, of those that both have, the bits are the reference's."""
    ours, theirs = report[f"operators {dtype}"], reference[f"operators {dtype}"]
    both = [name for name in ours if name in theirs]
    other = [name for name in both if ours[name] != theirs[name]]
    if not other:
        return f"all {len(both)}"
    named = ", ".join(f"`{name}`" for name in other[:MOST_NAMED]) + (" and others" if len(other) > MOST_NAMED else "")
    return f"{len(both) - len(other)} of {len(both)}; not {named}"


def figure(value):
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def row(name, report, reference):
    """A row of the table."""
    device, speed = report["device"], report["speed"]
    lacks = [what for what, has in report["arithmetic"].items() if not has]
    cells = [
        f"[{name}](../devices/{name}.json)",
        f"{device['name']}, {device['compute_units']} units",
        f"{device['platform']}, {device['driver']}" + (", by libcuda" if device["backend"] == "nvidia" else ""),
        compared(report, reference, "f32") + (f"; not as IEEE 754: {', '.join(lacks)}" if lacks else ""),
        compared(report, reference, "bf16"),
        figure(speed["copy_gb_per_s"]),
        figure(speed["f32_gflop_per_s"]),
        figure(speed["launch_us"]),
        report["date"],
    ]
    return "| " + " | ".join(cells) + " |\n"


def main():
    """Write the table, or compare."""
    reports = read()
    table = HEAD + "".join(row(name, report, reports[REFERENCE]) for name, report in reports.items())
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    want = before + BEGIN + "\n" + table + "\n" + END + rest.split(END, 1)[1]
    if "--check" not in sys.argv:
        PAGE.write_text(want, encoding="utf-8")
    elif text != want:
        sys.exit("docs/devices.md has another table than the reports give: devices/table.py")


if __name__ == "__main__":
    main()
