#!/usr/bin/python3
"""`charl report`: the data in the page are those of the runs, long runs are thinned without losing an extreme, no name ends the script,
and in Chromium the page draws curves, zooms, hides runs and fits narrow and wide windows without an error.

$CHARL_BIN_DIR holds the programs. Without Chromium (Debian: chromium) the part in the browser is skipped, visibly.
--screenshots FOLDER keeps pictures of the page, to be looked at.
"""
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import chromium  # pylint: disable=wrong-import-position

BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", ""))
SHOTS = pathlib.Path(sys.argv[2]).resolve() if sys.argv[1:2] == ["--screenshots"] else None
EVIL = "</script><script>document.title='broken'</script><b>&amp;"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="  # a PNG file of one pixel


def charl(code, *arguments):
    """charl, which must end with `code`."""
    done = subprocess.run([BIN / "charl", *arguments], timeout=1500, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode == code, f"charl {' '.join(arguments)} ended with {done.returncode}, not {code}:\n{done.stdout}"
    return done.stdout


def write_run(folder, rows, name, rate, every=10, seed=1, resumed=True):
    """A run directory with so many training rows."""
    path = pathlib.Path(folder)
    (path / "checkpoints").mkdir(parents=True)
    lines, state, elapsed, clock = [], seed, 0.0, 1.79e9
    for i in range(1, rows + 1):
        state = (state * 1103515245 + 12345) % (1 << 31)
        loss = 0.2 + 2.5 * math.exp(-rate * i / rows) + 0.2 * (state / (1 << 31) - 0.5)
        if i == rows // 3:
            loss = 9.75  # a spike that thinning must not lose
        elapsed = 0.05 if resumed and i == rows // 2 else elapsed + 0.05
        clock += 60 if resumed and i == rows // 2 else 0.05
        is_bad = i == rows // 4
        value, mark = ("null", ',"nonfinite":true') if is_bad else (f"{loss:.9g}", "")
        lines.append(f'{{"event":"train","step":{i * every},"epoch":{i / 100:.6g},"loss":{value},"lr":{1e-3 * (1 - i / rows):.9g},'
                     f'"grad_norm":{loss * 2:.9g},"samples":{i * every * 64},"samples_per_s":{12800 + state % 500},"step_ms":5,'
                     f'"data_ms":0.5,"comm_ms":1.5,"comm_exposed_ms":1,"mem_bytes":332398592,"elapsed_s":{elapsed:.3f},'
                     f'"time":{clock:.3f}{mark}}}\n')
        if i % max(1, rows // 20) == 0:
            lines.append(f'{{"event":"val","step":{i * every},"epoch":{i / 100:.6g},"loss":{loss + 0.1:.9g},"accuracy":{1 - loss / 12:.9g},'
                         f'"best":false,"elapsed_s":{elapsed:.3f},"time":{clock:.3f}}}\n')
    lines.insert(3, '{"event":"balance","step":15,"slices":[4,4],"compute_ms":[1.000,1.100],"ms":12,"time":1790000001.000}\n')
    lines.append('{"event":"train","step":99999999,"epoch":')  # being written
    (path / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    (path / "config.ini").write_text(f"[run]\nname = {name}\n\n[train]\nbatch_size = 64\n\n[optimizer]\ntype = adamw\nlearning_rate = {rate}\n\n"
                                     "[checkpoint]\nmonitor = val/accuracy\n", encoding="utf-8")
    (path / "env.json").write_text(json.dumps({"host": f"node-{seed}", "cpu": EVIL, "processors": 64, "devices": [{"name": "H200"}]}),
                                   encoding="utf-8")
    (path / "train.log").write_text("2026-11-22T10:00:00Z start step=0/10 ranks=1\n2026-11-22T11:00:00Z start step=5/10 ranks=4\n"
                                    "2026-11-22T12:00:00Z done step=10\n", encoding="utf-8")
    if seed == 1:
        (path / "eval.json").write_text(json.dumps({
            "split": "val", "step": 20, "loss": 0.5, "accuracy": 0.75,
            "classes": [{"name": "cat", "f1": 0.8, "support": 4}, {"name": EVIL, "f1": 0.6, "support": 8}],
            "confusion": [[3, 1], [2, 6]],
            "calibration": [{"confidence": 0.6, "accuracy": 0.5, "samples": 4}, {"confidence": 0.9, "accuracy": 0.875, "samples": 8}],
            "worst": [{"row": 7, "actual": 0, "predicted": 1, "actual_probability": 0.02, "predicted_probability": 0.9, "file": "p/" + EVIL + ".png", "png": DOT},
                      {"row": 3, "actual": 1, "predicted": 0, "actual_probability": 0.2, "predicted_probability": None}]}) +
                                        " " * 600000, encoding="utf-8")  # as large as pictures can make it
    if seed == 2:
        (path / "eval.json").write_text(json.dumps({
            "split": "test", "step": 20, "loss": 0.5, "classes": [{"name": f"c{i}", "f1": i / 40, "support": 5} for i in range(40)],
            "confusion": [[5 * (i == k) for k in range(40)] for i in range(40)]}), encoding="utf-8")
    if seed == 3:
        (path / "eval.json").write_text('{"split": ' + " " * 1200000 + "1}", encoding="utf-8")
    for step in (10, 20):
        (path / "checkpoints" / f"step-{step:08}.h5").write_bytes(b"x" * 1500)
    (path / "best.h5").symlink_to("checkpoints/step-00000010.h5")
    (path / "last.h5").symlink_to("checkpoints/step-00000020.h5")


def data_of(page):
    """The data in a page."""
    text = pathlib.Path(page).read_text(encoding="utf-8")
    assert text.count("<script") == 2 and text.count("</script>") == 2, "a text of a run has ended the script"
    assert not re.search(r'(?:src|href)\s*=|@import|url\((?!#)', re.sub(r"url\(#\$\{clip\}\)", "", text)), "the page loads something"
    return json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.S).group(1))


def check_data():
    """What the page holds of the runs."""
    one = data_of("short.html")["runs"][0]
    train, val = one["events"]["train"], one["events"]["val"]
    rows = [json.loads(line) for line in pathlib.Path("a/metrics.jsonl").read_text(encoding="utf-8").splitlines()[:-1]]
    want = [r for r in rows if r["event"] == "train"]
    assert train["step"] == [r["step"] for r in want] and train["rows"] == 60
    assert all((g is None and w["loss"] is None) or abs(g - w["loss"]) < 1e-5 for g, w in zip(train["series"]["loss"]["mean"], want))
    assert "min" not in train["series"]["loss"], "60 rows need not be thinned"
    assert train["series"]["loss"]["mean"].count(None) == 1 and one["nonfinite"] == 1
    assert train["time"] == sorted(train["time"]) and abs(train["time"][-1] - 60 * 0.05) < 1e-6, "time of a resumed run"
    assert len(val["step"]) == 20 and one["final"]["val"]["accuracy"] == [r for r in rows if r["event"] == "val"][-1]["accuracy"]
    best = max((r for r in rows if r["event"] == "val"), key=lambda r: r["accuracy"])
    assert one["monitor"] == "val/accuracy" and one["best"] == {"step": best["step"], "value": best["accuracy"]}
    assert one["split"] == {"compute": 3.5, "comm": 1, "data": 0.5} and one["samples_per_s"] == 12800
    assert one["state"] == "done" and one["ranks"] == 4 and one["steps"] == 600
    assert one["config"]["optimizer.learning_rate"] == "3" and one["name"] == EVIL
    assert json.loads(one["env"])["cpu"] == EVIL
    assert [(c["file"], c["step"], c["bytes"], c["best"], c["last"]) for c in one["checkpoints"]] == [
        ("checkpoints/step-00000010.h5", 10, 1500, True, False), ("checkpoints/step-00000020.h5", 20, 1500, False, True)]
    long = data_of("long.html")["runs"]
    size = os.path.getsize("long.html")
    assert size < 2_000_000, f"{size} bytes for 100,000 rows"
    loss = long[0]["events"]["train"]["series"]["loss"]
    points = len(loss["mean"])
    assert 300 < points < 5000 and max(v for v in loss["max"] if v is not None) == 9.75, "the spike is lost"
    assert None not in loss["mean"], "one row that is not finite makes no gap among many"
    assert all(a <= b <= c for a, b, c in zip(loss["min"], loss["mean"], loss["max"]))
    assert long[0]["events"]["train"]["step"][0] == 10 and long[0]["events"]["train"]["step"][-1] == 1_000_000
    assert [run["name"] for run in data_of("same.html")["runs"]] == ["b", "./b"], "runs of one name are told apart by their paths"
    print(f"data: {size} bytes and {points} points for 100,000 rows")


def check_blanks():
    """Rows that another program has written: blanks, escapes, values that a row does not need."""
    shutil.copytree("a", "blanks", symlinks=True)
    lines = pathlib.Path("a/metrics.jsonl").read_text(encoding="utf-8").splitlines()[:-1]
    rows = [dict(json.loads(line), note="\u00e9 \"[{", tree={"a": [[1, "]"], {}]}) for line in lines]
    pathlib.Path("blanks/metrics.jsonl").write_text("".join(" " + json.dumps(r, separators=(" , ", " : ")) + "\r\n" for r in rows), encoding="utf-8")
    charl(0, "report", "blanks", "-o", "blanks.html")
    charl(0, "report", "a", "-o", "a.html")
    assert data_of("blanks.html")["runs"][0]["events"] == data_of("a.html")["runs"][0]["events"], "rows with blanks are others"
    pathlib.Path("blanks/metrics.jsonl").write_text("step,loss\n1,2\n")
    assert "none of its 2 lines is a JSON object" in charl(3, "report", "blanks", "-o", "blanks.html")


def check_energy():
    """Counters that begin again at a resumed start add up; without one it is an estimate, and without run.power unknown."""
    for name in ("measured", "estimated"):
        shutil.copytree("a", name, symlinks=True)
    lines = pathlib.Path("a/metrics.jsonl").read_text(encoding="utf-8").splitlines()[:-1]
    rows = [json.loads(line) for line in lines]
    joules = {r["step"]: 7200 * r["elapsed_s"] for r in rows if r["event"] == "train"}  # begins again where elapsed_s does
    pathlib.Path("measured/metrics.jsonl").write_text("".join(json.dumps(
        dict(r, energy_j=joules[r["step"]]) if r["event"] == "train" else r) + "\n" for r in rows), encoding="utf-8")
    for name in ("measured", "estimated"):
        path = pathlib.Path(name, "config.ini")
        path.write_text(path.read_text(encoding="utf-8").replace("[run]\n", "[run]\npower = 500\nprice = 90\n"), encoding="utf-8")
    charl(0, "report", "measured", "estimated", "b", "-o", "energy.html")
    measured, estimated, neither = data_of("energy.html")["runs"]
    seconds = measured["time"]
    assert seconds > 2.9 and measured["energy_measured"] and abs(measured["energy_kwh"] - 7200 * seconds / 3.6e6) < 1e-9
    assert not estimated["energy_measured"] and abs(estimated["energy_kwh"] - 4 * 500 * seconds / 3.6e6) < 1e-9, "4 ranks"
    assert abs(estimated["cost"] - 4 * 90 * seconds / 3600) < 1e-9 and measured["cost"] == estimated["cost"]
    assert neither["energy_kwh"] is None and neither["cost"] is None
    path = pathlib.Path("measured/metrics.jsonl")
    # A first row of the resumed part that comes later than the last one of the part before: its 5 s and 36 kJ count too.
    later = [dict(r, elapsed_s=r["elapsed_s"] + 5, time=r["time"] + 5) if r["step"] >= 300 else r for r in rows if r["event"] != "balance"]
    path.write_text("".join(json.dumps(dict(r, energy_j=7200 * r["elapsed_s"]) if r["event"] == "train" else r) + "\n" for r in later),
                    encoding="utf-8")
    charl(0, "report", "measured", "-o", "energy.html")
    (got,) = data_of("energy.html")["runs"]
    assert abs(got["time"] - seconds - 5) < 1e-6 and abs(got["energy_kwh"] - 7200 * (seconds + 5) / 3.6e6) < 1e-9, (got["time"], seconds)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    max((r for r in lines if r["event"] == "train"), key=lambda r: r["step"]).pop("energy_j")
    path.write_text("".join(json.dumps(r) + "\n" for r in lines), encoding="utf-8")
    charl(0, "report", "measured", "-o", "energy.html")
    assert not data_of("energy.html")["runs"][0]["energy_measured"], "a counter that was lost"


def check_errors():
    """Directories that are no runs, and pages that cannot be written."""
    assert "none: there is no such run: No such file" in charl(3, "report", "none")
    assert not os.path.exists("report.html"), "a page without a run"
    assert "no/such/place.html: create failed" in charl(8, "report", "a", "-o", "no/such/place.html")
    charl(2, "report")
    for name in ("a/config.ini", "a/metrics.jsonl"):
        before = pathlib.Path(name).read_bytes()
        assert f"{name}: exists and was not written by charl report" in charl(2, "report", "a", "-o", name)
        assert pathlib.Path(name).read_bytes() == before
    pathlib.Path("empty.html").touch()
    for _ in range(2):
        charl(0, "report", "a", "-o", "empty.html")
    pathlib.Path("odd").mkdir()
    pathlib.Path("odd/metrics.jsonl").write_bytes(b'{"event":"train"}\n{"event":"train","step":"x","elapsed_s":1}\n{{{\n[]\n\n{"event":"tr\\u0061in"}\n'
                                                  b'{"event":"train","step":1e999,"elapsed_s":1}\n' + b'{"a":' * 5000 + b"\n\xff\xfe\x00\n")
    charl(0, "report", "odd", "-o", "odd.html")
    assert data_of("odd.html")["runs"][0]["events"] == {}


def check_page(page):
    """What the page does."""
    here = pathlib.Path.cwd()
    page.open(here / "short.html", 1400, 1000)
    assert page.evaluate("document.title") == f"charl report: {EVIL}, second", "a name was taken for HTML"
    assert page.evaluate("charts.map(c => c.name).slice(0, 3)") == ["train/loss", "val/accuracy", "train/lr"]
    assert page.evaluate("charts.every((c, i) => c.svg.querySelectorAll('path[data-run]').length === (i === 0 ? 4 : 2))"), "a curve is missing"
    assert page.evaluate("charts[0].names") == ["train/loss", "val/loss"], "training and validation are in one chart"
    assert page.evaluate("[...charts[0].svg.querySelectorAll('path[data-run]')].map(p => p.hasAttribute('stroke-dasharray'))") == [
        False, False, True, True]
    # A ring at the best step, where its curve of the validation is
    best = page.evaluate("runs.map(r => r.best.step)")
    for i in (0, 1):
        rings = page.evaluate(f"[...charts[{i}].svg.querySelectorAll('.best')].map(c => +c.getAttribute('cx'))")
        assert len(rings) == 2 and all(abs(x - page.evaluate(f"charts[{i}].view.px({step})")) < 0.1 for x, step in zip(rings, best)), rings
    assert page.evaluate("charts[0].svg.querySelector('.best title').textContent").startswith("best val/accuracy: ")
    assert page.evaluate("charts[0].svg.querySelectorAll('path[data-run]')[1].getAttribute('d').match(/L/g).length") > 40
    assert page.evaluate("charts[0].svg.querySelector('path[data-run]').getAttribute('d').match(/M/g).length") == 2, "no gap at NaN"
    # Tooltip
    box = page.evaluate("(r => [r.left, r.top, r.width, r.height])(charts[0].svg.getBoundingClientRect())")
    middle = box[1] + box[3] / 2
    page.mouse("mouseMoved", box[0] + box[2] / 2, middle)
    tip = page.evaluate("charts[0].tip.hidden ? '' : charts[0].tip.innerText")
    assert re.search(r"step \d+", tip) and "second" in tip and EVIL[:9] in tip, tip
    # Zoom of all charts, and back
    page.drag(box[0] + box[2] * 0.4, box[0] + box[2] * 0.6, middle)
    assert page.evaluate("charts.every(c => c.view === null || (c.view.x0 > 150 && c.view.x1 < 450))"), "all charts zoom"
    assert page.evaluate("document.getElementById('reset').disabled") is False
    page.evaluate("document.getElementById('reset').click()")
    assert page.evaluate("charts[0].view.x0") == 10 and page.evaluate("document.getElementById('reset').disabled") is True
    page.evaluate("charts[0].root.focus()")
    for key in ("ArrowRight", "+"):
        page.key(key)
    assert page.evaluate("charts[0].view.x1 - charts[0].view.x0") < 310, "the keyboard zooms"
    page.key("0")
    assert page.evaluate("state.range") is None
    # Legend, smoothing, axis, logarithm
    page.evaluate("document.querySelector('#legend button').click()")
    assert page.evaluate("charts.every(c => c.svg.querySelectorAll('path[data-run][data-run=\"0\"]').length === 0)"), "a hidden run is drawn"
    assert page.evaluate("document.querySelector('#legend button').getAttribute('aria-pressed')") == "false"
    page.evaluate("document.querySelector('#legend button').click()")
    rough = page.evaluate("charts[0].svg.querySelectorAll('path[data-run]')[1].getAttribute('d')")
    page.evaluate("(e => { e.value = 90; e.dispatchEvent(new Event('input')); })(document.getElementById('smooth'))")
    assert page.evaluate("charts[0].svg.querySelectorAll('path[data-run]')[1].getAttribute('d')") != rough
    assert page.evaluate("smooth([4, 4, 4], 0.9)") == [4, 4, 4] and page.evaluate("smooth([1, null, 3], 0.5)")[2] == 7 / 3
    page.evaluate("(e => { e.value = 'time'; e.dispatchEvent(new Event('change')); })(document.getElementById('axis'))")
    assert abs(page.evaluate("charts[0].view.x1") - 3) < 1e-6
    page.evaluate("document.getElementById('log').click()")
    assert page.evaluate("Math.abs(Math.pow(10, charts[0].view.value(2)) - 2)") < 1e-9
    # Tables
    assert "learning_rate" in page.evaluate("document.getElementById('diff').innerText")
    assert "node-1" in page.evaluate("document.getElementById('diff').innerText")
    assert page.evaluate("document.getElementById('checkpoints').querySelectorAll('tbody tr').length") == 4
    assert "1 row is not finite" in page.evaluate("document.getElementById('summary').innerText")
    cells = "[...document.querySelectorAll('#eval .matrix tbody')[0].querySelectorAll('td')]"
    assert page.evaluate(f"{cells}.map(c => c.innerText)") == ["3", "1", "2", "6"]
    assert page.evaluate(f"{cells}[1].title") == f"actual cat, predicted {EVIL}: 1 of 4"
    assert page.evaluate("[...document.querySelectorAll('#eval table')[1].querySelectorAll('tbody th')].map(c => c.innerText)") == [EVIL, "cat"]
    assert page.evaluate("[...document.querySelectorAll('#eval .worst img')].map(i => [i.alt, i.naturalWidth])") == [["row 7", 1]]
    captions = page.evaluate("[...document.querySelectorAll('#eval .worst figcaption')].map(c => c.innerText)")
    assert captions == [f"p/{EVIL}.png: cat (2 %)\npredicted {EVIL} (90 %)", f"row 3: {EVIL} (20 %)\npredicted cat"], captions
    assert page.evaluate("document.querySelector('#eval canvas').width") == 40, "40 classes are a picture"
    assert page.evaluate("[...document.querySelectorAll('#eval circle title')].map(t => t.textContent)") == [
        "confidence 0.6, accuracy 0.5, samples 4", "confidence 0.9, accuracy 0.875, samples 8"]
    for name, width, dark in (("light-1400", 1400, False), ("dark-1400", 1400, True), ("light-400", 400, False), ("dark-400", 400, True)):
        page.open(here / "short.html", width, 1000, dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name}: the page is wider than the window"
        fits = page.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('#summary .scroll'))")
        assert fits, f"{name}: the summary is wider than the window"
        ink = page.evaluate("getComputedStyle(document.body).color + getComputedStyle(document.body).backgroundColor")
        assert (("15, 18, 22" in ink) == dark), f"{name}: {ink}"
        if SHOTS:
            page.screenshot(SHOTS / f"{name}.png")
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(247, 248, 250)", "the button chooses the other theme"
    begin = time.monotonic()
    page.open(here / "long.html", 1400, 1000)
    print(f"100,000 rows: open after {time.monotonic() - begin:.2f} s")
    assert page.evaluate("charts[0].svg.querySelectorAll('path').length") == 6, "curves of training and validation and a band for each run"
    assert "eval.json is not JSON, or is larger" in page.evaluate("document.getElementById('eval').innerText")
    if SHOTS:
        page.screenshot(SHOTS / "long.png")
    page.open(here / "odd.html", 1400, 1000)
    assert page.evaluate("document.getElementById('evaluation').hidden") is True
    assert "No rows." in page.evaluate("document.getElementById('charts').innerText")
    assert not page.errors, page.errors


def check_seeds(page):
    """Runs that differ in the seed only: one color for each configuration, thin lines, their mean and a band of one deviation."""
    for rate in (3, 5):
        for seed in (1, 2, 3):
            write_run(f"s{rate}{seed}", 20, f"s{rate}{seed}", rate, seed=seed, resumed=False)
    charl(0, "report", *[f"s{rate}{seed}" for seed in (1, 2, 3) for rate in (3, 5)], "-o", "seeds.html")
    page.open(pathlib.Path.cwd() / "seeds.html", 1400, 1000)
    lines = "[...charts[1].svg.querySelectorAll('path[data-run]')]"
    assert page.evaluate("charts[1].name") == "val/accuracy"
    both = page.evaluate("[...charts[0].svg.querySelectorAll('path[data-run]')].map(p => Number(p.getAttribute('stroke-width')))")
    assert both == [0.8] * 12 + [1.8] * 4, f"seeds and means of both losses: {both}"
    assert page.evaluate(f"{lines}.map(p => Number(p.getAttribute('stroke-width')))") == [0.8] * 6 + [1.8] * 2
    assert page.evaluate(f"new Set({lines}.map(p => p.getAttribute('stroke'))).size") == 2
    assert page.evaluate(f"{lines}.map(p => p.getAttribute('stroke')).slice(0, 4)") == page.evaluate(
        f"[0, 1, 0, 1].map(i => {lines}[6 + i].getAttribute('stroke'))")
    assert page.evaluate("[...document.querySelectorAll('#legend button')].map(b => b.innerText.trim())") == ["learning_rate = 3", "learning_rate = 5"]
    # the first point of the mean and of its band, by hand; all of them are of steps that every seed has
    first = [next(json.loads(row)["accuracy"] for row in pathlib.Path(f"s3{seed}/metrics.jsonl").read_text(encoding="utf-8").splitlines()[:-1]
                  if '"event":"val"' in row) for seed in (1, 2, 3)]
    mean, deviation = sum(first) / 3, statistics.stdev(first)
    assert deviation > 0
    for have, want in zip(page.evaluate("(l => [l.y[0], l.lo[0], l.hi[0]])(charts[1].shown()[6])"), (mean, mean - deviation, mean + deviation)):
        assert abs(have - want) < 1e-4, (have, want)
    page.evaluate("document.getElementById('seeds').click()")
    assert page.evaluate(f"{lines}.map(p => Number(p.getAttribute('stroke-width')))") == [1.8] * 6, "plain lines"
    page.evaluate("document.getElementById('seeds').click()")
    page.evaluate("document.querySelector('#legend button').click()")
    assert page.evaluate(f"{lines}.length") == 4, "a configuration is hidden with its seeds"
    assert not page.errors, page.errors


def main():
    """Short runs, long ones, and what is none."""
    write_run("a", 60, EVIL, 3)
    write_run("b", 60, "second", 5, seed=2)
    write_run("long-a", 100_000, "long", 4, seed=3)
    write_run("long-b", 50_000, "longer steps", 6, every=20, seed=4, resumed=False)
    assert charl(0, "report", "a", "b", "-o", "short.html") == "short.html: 2 runs\n"
    charl(0, "report", "long-a", "long-b", "-o", "long.html")
    charl(0, "report", "b", "./b", "-o", "same.html")
    check_data()
    check_blanks()
    check_energy()
    check_errors()
    program = chromium.find()
    if not program:
        print("skipped case: the page in a browser: no chromium")
        return
    page = chromium.Page(program, pathlib.Path.cwd() / "profile")
    try:
        check_page(page)
        check_seeds(page)
    finally:
        page.close()


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
    os.chdir(scratch)
    main()
    os.chdir("/")
