"""The configurations of docs/models: their lines, changed for a test, and how many parameters they have."""
import os
import pathlib
import re
import subprocess

BIN = pathlib.Path(os.environ.get("CHARL_BIN_DIR", ""))
PAGES = pathlib.Path(__file__).parents[2] / "docs" / "models"
# Of the mobilenet that the tests train: channels before and after, in widths, stride and repetitions of each layer.
MOBILENET = [(1, 2, 1, 1), (2, 4, 2, 1), (4, 4, 1, 1), (4, 8, 2, 1), (8, 8, 1, 1), (8, 16, 2, 1), (16, 16, 1, 2), (16, 32, 2, 1), (32, 32, 1, 1)]


def page(name, *changes):
    """The lines of the [model] of a page, with values replaced: "section.key=value"."""
    text = re.search(r"```ini\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.S).group(1)
    lines = text[text.index("[model]") + len("[model]\n"):text.index("[train]")].splitlines()
    for change in changes:
        place, value = change.split("=", 1)
        section, key = place.rsplit(".", 1)
        at = lines.index(f"[{section}]")
        while not lines[at].startswith(f"{key} ="):
            at += 1
        lines[at] = f"{key} = {value}"
    return lines


def mobilenet_page(width):
    changes = [f"layer stem.channels={width}", "layer s7.repeat=2"]
    for i, (a, b, *_) in enumerate(MOBILENET, 1):
        changes += [f"layer s{i}.in={a * width}", f"layer s{i}.out={b * width}"]
    return page("mobilenet", *changes)


def convnext_page(dims, repeats, *changes):
    """The page's configuration with these widths and depths."""
    changes = [f"layer stem.channels={dims[0]}", *changes]
    for i, (dim, repeat) in enumerate(zip(dims, repeats), 1):
        changes += [f"layer stage{i}.dim={dim}", f"layer stage{i}.repeat={repeat}", *([f"layer down{i}.dim={dim}"] if i > 1 else [])]
    return page("convnext", *changes)


def count(folder, lines, *options):
    config = folder / "count.ini"
    config.write_text("[data]\npath = none.h5\n[model]\n" + "\n".join(lines) + "\n")
    shown = run_and_read(BIN / "charl", "model", "show", config, *options)
    return int(re.search(r"^  \d+ layers +(\d+) ", shown, re.M).group(1))


def run_and_read(*command):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CHARL_BIN_") and not k.startswith("CHARL_TEST_")}
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, check=True, timeout=1500, env=env).stdout


def report_count(name, got, want):
    print(f"{name}: {got} parameters{'' if got == want else f', not {want}'}")
    return int(got != want)
