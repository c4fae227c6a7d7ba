#!/usr/bin/env python3
"""Every row that a file of src defines is listed by the library and by the programs, named in the documents, and can be used by its name.

The names come from the sources, and not from the tables that the build makes of them. Each kind is asked for a planted row too, which must
be neither listed nor usable: else the question could not be answered with no.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.pop("CHARL_BIN_DIR")).resolve()
LIST = BIN.parents[1] / "tests/cli/list_rows"
PLANTED = "planted_row"
for name in ("CHARL_TEST_SHORT", "CHARL_TEST_LONG", "CHARL_TEST_DATA"):  # charl warns of variables that it does not know
    os.environ.pop(name, None)

failures = []


def fail(text):
    failures.append(text)
    print(f"FAILED: {text}")


def run(*command):
    done = subprocess.run([str(c) for c in command], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1500)
    return done.returncode, done.stdout + done.stderr


def defined(folder, definition):
    """Names of the rows that files of src/FOLDER define in lines that DEFINITION matches: the first text of the row if it is a name, or the
    end of the row's identifier. Not those that only reports have."""
    names = []
    folder = ROOT / "src" / folder
    for path in sorted(folder.rglob("*.c")) if folder.is_dir() else [folder]:
        text = path.read_text()
        for match in re.finditer(definition, text, re.M):
            row = text[match.end():].split(";\n", 1)[0]
            first = re.search(r'"([^"]*)"', row)
            if ".report_only = true" not in row:
                names.append(first.group(1) if first and re.fullmatch("[a-z0-9_-]+", first.group(1)) else match.group(1))
    return names


def rows(folder, kind, prefix):
    return defined(folder, rf"^const {kind} {prefix}(\w+) =")


def changes():
    """Names of data.augment, from the table of config_augment.c and the one that has no amount."""
    text = (ROOT / "src/config/config_augment.c").read_text()
    table = re.search(r"\*const names\[[^\]]*\] = \{([^}]*)\}", text).group(1)
    return re.findall(r'strcmp\(word, "(\w+)"\) == 0', text) + re.findall(r'"(\w+)"', table)


def drivers():
    return rows("device", "charl__driver", "charl__driver_")


def operators():
    return re.findall(r"^CHARL_OP\((\w+)\)", (ROOT / "src/autograd/ops.def").read_text(), re.M)


def accepts(setting):
    """Whether the configuration takes SETTING with NAME replaced, and prints it."""
    def check(name):
        value = setting.replace("NAME", name)
        # what some rows need besides
        more = {"multistep": ["scheduler.milestones=1"], "range_test": ["scheduler.min_lr=1e-7"], "sequential": ["layers.ini"]}.get(name, [])
        code, out = run(BIN / "charl-train", *(["c.ini"] if "layers.ini" not in more else []), *more, "--print-config", value)
        key = value.split("=", 1)[0].split(".")[1]
        return code == 0 and re.search(rf"^{re.escape(key)} = .*{re.escape(name)}", out, re.M) is not None
    return check


def augments(name):
    for amount in ("", ":1", ":0.5"):
        more = {"magnitude": "randaugment:2,", "randaugment": ""}.get(name, "")
        if accepts(f"data.augment={more}NAME{amount}")(name):
            return True
    return False


def builds(name):
    """A layer of the type is known: what is missing then is one of its keys, or its place is wrong."""
    Path("layer.ini").write_text(Path("layers.ini").read_text().replace("[layer b]", f"[layer a]\ntype = {name}\n[layer b]"))
    _, out = run(BIN / "charl", "model", "show", "layer.ini")
    return "there is no layer type" not in out


def imports(name):
    return run(BIN / "charl", "data", "import", name, "--help")[0] == 0


def tokenizes(name):
    """By its name, or where it is read from a folder by that."""
    if name == "pretrained":
        os.makedirs("gpt2", exist_ok=True)
        letters = sorted(set(Path("t.txt").read_text().replace(" ", "\u0120").replace("\n", "\u010a")))
        Path("gpt2/vocab.json").write_text(json.dumps({c: i for i, c in enumerate([*letters, "<|endoftext|>"])}))
        Path("gpt2/merges.txt").write_text("#version: 0.2\n")
    name = "gpt2" if name == "pretrained" else name
    return run(BIN / "charl", "data", "import", "text", "t.txt", "--tokenizer", name, "-o", "t.h5", "--overwrite")[0] == 0


VERSION = {}
for line in run(BIN / "charl-train", "--version")[1].splitlines():
    if line.startswith("  ") and ": " in line:
        VERSION[line.split(":")[0].strip()] = line.split(": ", 1)[1].split()
HELP = run(BIN / "charl-train", "--help-config")[1]
LIBRARY = {}
for line in run(LIST)[1].splitlines():
    LIBRARY.setdefault(line.split()[0], []).append(line.split()[1])


def key_lists(section, key):
    inside = re.search(rf"^\[{section}\]$(.*?)(?=^\[)", HELP + "[", re.M | re.S).group(1)
    return re.findall(r"[\w.-]+", re.search(rf"^  ?{key} = .*\n(.*(?:\n.*)?)", inside, re.M).group(1))


DOCS = "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))) + (ROOT / "datasets/README.md").read_text()

METRICS = rows("nn/metric", "charl__metric", "charl__metric_")
# kind: names in the sources; lists that must have them; whether a row can be used
KINDS = {
    "operator": (operators(), [LIBRARY["operator"]], None),
    "layer": (rows("nn/layer", "charl_layer_type", "charl__layer_"),
              [LIBRARY["layer"], VERSION["layers"], re.findall(r"^  type = (\w+)", HELP, re.M)], builds),
    "model": (rows("nn", "charl_model_type", "charl__model_"), [LIBRARY["model"], VERSION["models"]], accepts("model.type=NAME")),
    "loss": (rows("nn/loss", "charl__loss", "charl__loss_"), [LIBRARY["loss"], VERSION["losses"]], accepts("train.loss=NAME")),
    "metric": (METRICS, [LIBRARY["metric"], VERSION["metrics"]], accepts("eval.metrics=NAME")),
    "monitor": (METRICS, [], accepts("checkpoint.monitor=val/NAME")),
    "optimizer": (rows("optim", "charl__optimizer_rule", "charl__optim_"), [LIBRARY["optimizer"], VERSION["optimizers"]],
                  accepts("optimizer.type=NAME")),
    "schedule": (defined("optim/schedule.c", r"^static const charl__schedule_type (\w+)_type ="),
                 [LIBRARY["schedule"], VERSION["schedulers"]], accepts("scheduler.type=NAME")),
    "importer": (rows("data/import", "charl_importer", "charl__importer_"), [LIBRARY["importer"], VERSION["importers"]], imports),
    "tokenizer": (rows("data/tokenizer", "charl__tokenizer_type", "charl__tokenizer_"), [LIBRARY["tokenizer"], VERSION["tokenizers"]],
                  tokenizes),
    "augmentation": (changes(), [key_lists("data", "augment")], augments),
    "all-reduce": (rows("dist/allreduce", "charl__algorithm", "charl__allreduce_"), [LIBRARY["all-reduce"], VERSION["all-reduces"]],
                   accepts("dist.allreduce=NAME")),
    "driver": (drivers(), [key_lists("device", "driver")], accepts("device.driver=NAME")),
    "weight layout": (rows("nn", "charl__weights_layout", "charl__layout_"), [], None),
}


def check(kind, names, lists, usable):
    """What is wrong with rows of these names."""
    for name in names:
        if any(name not in names_listed for names_listed in lists):
            yield f"{kind} {name}: not listed"
        if usable and not usable(name):
            yield f"{kind} {name}: cannot be used"
        # operators of one's own are described by the headers, and gradients are no subject of documents
        if kind != "operator" and not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", DOCS, re.I):
            yield f"{kind} {name}: no document names it"


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    Path("c.ini").write_text("[data]\npath = none.h5\n[model]\ntype = mlp\n")
    Path("layers.ini").write_text("[data]\npath = digits.h5\n[model]\ntype = sequential\n[layer b]\ntype = linear\nout = 10\n")
    Path("t.txt").write_text("some text of a few words, again and again\n" * 200)
    if run(BIN / "charl", "data", "make", "digits", "digits.h5", "-t", 40, "-v", 20)[0] != 0:
        sys.exit("charl data make fails")
    for kind, (names, lists, usable) in KINDS.items():
        print(f"{kind}: {' '.join(names)}")
        if len(names) < 2 or len(set(names)) != len(names):
            fail(f"{kind}: the sources define {names}")
        for what in check(kind, names, lists, usable):
            fail(what)
        for listed in lists:
            extra = set(listed) - set(names) if listed in LIBRARY.values() else set()
            if extra:
                fail(f"{kind}: the library lists {extra}, which no file of src defines")
        found = list(check(kind, [PLANTED], lists, usable))
        wanted = (1 if lists else 0) + (1 if usable else 0) + (1 if kind != "operator" else 0)
        if len(found) != wanted:
            fail(f"{kind}: of a planted row only this is wrong: {found}")
    os.chdir("/")
sys.exit(1 if failures else 0)
