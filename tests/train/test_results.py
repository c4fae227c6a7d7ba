#!/usr/bin/python3
"""docs/results.md: its configurations exist, its tables are made from docs/results, and two of its runs give the hashes there, on this device.

The runs are the cheapest: a table to its end, and digits.ini to its first checkpoint.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
for name in ("CHARL_TEST_SHORT", "CHARL_TEST_LONG"):  # charl warns of variables that it does not know
    os.environ.pop(name, None)
import results  # noqa: E402, it takes the programs' folder from the environment

failures = []


def expect(what, is_so):
    if not is_so:
        failures.append(what)
        print(f"FAILED: {what}", flush=True)


def recorded(name):
    """What the page's run.lock of a run has as `tensors` of each step."""
    lines = [line.split() for line in (results.RECORDS / (name + ".lock")).read_text().splitlines()]
    return {w[1]: w[2] for w in lines if w[0] == "checkpoint"}


def check_page(folder):
    text = results.PAGE.read_text()
    for case in results.CASES:
        expect(f"{case.source} exists", results.config_of(case, folder).exists())
    sources = {case.source.partition("#")[0] for case in results.CASES}
    for path in sorted(results.ROOT.glob("launch/*.ini")):
        expect(f"{path.name} is an example of results.py, or the page says why not", f"launch/{path.stem}" in sources or f"| {path.name} |" in text)
    for path in sorted(results.ROOT.glob("docs/models/*.md")):
        expect(f"{path.name} has a run, or the page says why not", f"docs/models/{path.stem}" in sources or f"| models/{path.name} |" in text)
    expect("the tables of the page are those that `results.py page` writes", results.write_page(text) == text)
    for run in results.lines_of(results.RECORDS / "runs.jsonl"):
        case = next(c for c in results.CASES if c.name == run["name"])
        expect(f"{case.name}.lock has the tensors of runs.jsonl",
               run["seed"] != case.seeds[0] or recorded(case.name)[f"step={run['steps']}"] == "tensors=" + run["tensors"])


def check_run(name, folder, steps):
    """The run gives the recorded tensors up to this step; 0: to its end."""
    case = next(c for c in results.CASES if c.name == name)
    environment = {**os.environ, "CHARL_FAULT": f"train.stop:{steps + 1}"} if steps else None
    config = results.config_of(case, folder)
    done = subprocess.run([results.BIN / "charl-train", "-q", "-o", folder / name, config, f"data.path={folder}/{case.data}.h5",
                           f"run.seed={case.seeds[0]}", "device.share=yes", *results.each_epoch(config)], env=environment, stdout=subprocess.DEVNULL)
    expect(f"{name} trains", done.returncode == (75 if steps else 0))
    mine, theirs = (folder / name / "run.lock").read_text(), recorded(name)
    compared = {step: tensors for step, tensors in theirs.items() if step + " " in mine}
    expect(f"{name} saves checkpoints", len(compared) == (1 if steps else len(theirs)))
    for step, tensors in compared.items():
        expect(f"{name}, {step}: {tensors}", tensors in mine)


with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    check_page(here)
    results.make_flowers(here)
    check_run("flowers", here, 0)
    results.charl("data", "make", "digits", here / "digits.h5")
    check_run("digits", here, 157)
print(f"{len(failures)} failed")
sys.exit(bool(failures))
