#!/usr/bin/python3
"""charl plan: the tables of docs/distributed.md are its output; what it says of memory is what `charl model memory` says, and of a run what the
run has measured; rates, prices and clusters that it cannot know are asked for. The largest batch is the last that fits, and the range test of
`charl tune` suggests a tenth of the learning rate with the lowest loss."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ["CHARL_BIN_DIR"])
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/distributed.md"
MODELS = {"7B": dict(layers=32, width=4096, heads=32, kv=32, hidden=11008),
          "13B": dict(layers=40, width=5120, heads=40, kv=40, hidden=13824),
          "70B": dict(layers=80, width=8192, heads=64, kv=8, hidden=28672)}
WINDOWS = 4  # of 2048 tokens per GPU and step, in one slice
MODES = ("none", "optimizer", "gradients", "parameters")


def charl(code, *arguments, program="charl"):
    done = subprocess.run([BIN / program, *arguments], timeout=1500, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == code, f"{program} {' '.join(arguments)} ended with {done.returncode}, not {code}:\n{done.stdout}"
    return done.stdout


def rows_of(text):
    """The cells of each row of a plan."""
    lines = text.split("\n\n")[1].splitlines()
    return {cells[0]: cells[1:] for cells in (re.split(r" {2,}", line.strip()) for line in lines[1:])}


def llama(m):
    return (f"[data]\npath = text.h5\n[model]\ntype = gpt\nn_layer = {m['layers']}\nn_head = {m['heads']}\nn_kv_head = {m['kv']}\n"
            f"n_embd = {m['width']}\nhidden = {m['hidden']}\nblock_size = 2048\nnorm = rms\nmlp = swiglu\npositions = rotary\nbias = no\n"
            "tie_weights = no\nvocab_size = 32000\n[train]\nprecision = bf16\nrecompute = yes\nmax_steps = 100\n[optimizer]\ntype = adamw\n"
            "[dist]\nbucket_mb = 256\n")


def table(name, clusters=(8, 64, 1024)):
    pathlib.Path(f"{name}.ini").write_text(llama(MODELS[name]))
    lines = []
    for n in clusters:
        plans = [rows_of(charl(0, "plan", f"{name}.ini", f"train.slices={n}", f"train.batch_size={WINDOWS * n}", "--nodes", f"{n // 8}x8",
                               "--device", "H200", "--far", str(far))) for far in ((25, 100) if n > 8 else (25,))]
        for mode in MODES:
            cells = plans[0][mode]
            steps = [p[mode][2] for p in plans]
            second = "" if cells[2] == "does not fit" else steps[-1] if n > 8 else "the same"
            lines.append(f"| {n:,} | `{mode}` | {cells[0]} | {cells[1]} | {steps[0]} | {second} |")
    return lines


def tables(names, clusters=(8, 64, 1024)):
    return {name: table(name, clusters) for name in names}


def check_page(names, clusters):
    page = PAGE.read_text(encoding="utf-8")
    for name, lines in tables(names, clusters).items():
        begin = page.index(f"\n{name}: ")
        part = page[begin:page.index("\n\n", page.index("\n| 8 |", begin))]
        for line in lines:
            assert line in part.splitlines(), f"docs/distributed.md, {name}: there is no row\n{line}\nsee test_plan.py --print"


def check_memory():
    """On one device it is what the training plans here, and dist.shard = optimizer saves half of adamw's 8 bytes on 2 devices."""
    large = ("mlp.ini", "train.slices=2", "train.batch_size=64", "model.hidden=1024, 1024")
    here = re.search(r"^  memory +([0-9.]+) MiB", charl(0, *large, "--dry-run", program="charl-train"), re.M)
    plan = rows_of(charl(0, "plan", *large, "--device", "H200"))
    assert abs(float(here.group(1)) * 1.048576 / float(plan["none"][0].split()[0]) - 1) < 0.01, (here.group(0), plan)
    two = {m: float(cells[0].split()[0]) for m, cells in rows_of(charl(0, "plan", *large, "--nodes", "2", "--device", "H200")).items()}
    elements = (784 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10) / 1e6
    assert abs(two["none"] - two["optimizer"] - 4 * elements) < 0.2, (two, elements)
    assert two["none"] > two["optimizer"] > two["gradients"]


def check_numbers():
    """Time, energy and cost by hand: 100 steps on two nodes of 2, computing and nothing else that counts."""
    text = charl(0, "plan", "mlp.ini", "train.max_steps=1000000", "--nodes", "2x2", "--tflops", "1e-6", "--memory", "1", "--near", "1e6", "--far", "1e6", "--watts",
                 "500", "--price", "2.5", "--device", "A100")
    step = re.search(r"a rank computes 2 slices in ([0-9.]+) s, by the rate", text)
    cells = rows_of(text)["none"]
    seconds = float(step.group(1))
    hours = seconds * 1e6 / 3600
    assert cells[2] == f"{seconds:.3g} s" and cells[3] == f"{hours / 24:.3g} d", text
    assert abs(float(cells[4].split()[0]) / (4 * hours * 0.5) - 1) < 0.01 and abs(float(cells[5]) / (4 * hours * 2.5) - 1) < 0.01, text
    small = rows_of(charl(0, "plan", "mlp.ini", "--nodes", "2", "--device", "H200", "--memory", "0.0001"))
    assert all(small[m][2] == "does not fit" for m in MODES), small


def check_run():
    """A run beside its plan, which times this machine."""
    charl(0, "mlp.ini", "-q", "-o", "run", "run.power=100", "run.price=36", program="charl-train")
    text = charl(0, "plan", "mlp.ini", "run.power=100", "run.price=36", "dist.shard=none", "--run", "run")
    measured = rows_of(text)["measured"]
    assert len(measured) == 5 and measured[3].endswith(" kWh"), text
    change = re.search(r"measured against dist.shard = none: memory ([-+0-9.]+) %, step [-+0-9.]+ %, time of 10 steps [-+0-9.]+ %", text)
    assert change and abs(float(change.group(1))) < 10, text


def check_largest_batch():
    found = []
    for memory in ("0.0021", "0.0023"):
        said = charl(0, "plan", "mlp.ini", "--largest-batch", "--memory", memory)
        line = re.search(r"^largest batch: (\d+), which takes (\S+) of (\S+) GiB; (\d+) does not fit$", said, re.M)
        assert line and int(line[4]) == int(line[1]) + 8 and float(line[2]) <= float(line[3]), said
        assert said.rstrip().endswith(f"[train]\nbatch_size = {line[1]}"), said
        found.append(int(line[1]))
    assert 0 < found[0] < found[1] < 320, found
    said = charl(0, "plan", "mlp.ini", "--largest-batch", "--memory", "10")
    assert "largest batch: 320, " in said and "all training samples fit" in said, said
    assert "not even a batch of 8 fits" in charl(4, "plan", "mlp.ini", "--largest-batch", "--memory", "0.0001")
    assert "--largest-batch is of one device" in charl(2, "plan", "mlp.ini", "--largest-batch", "--nodes", "2", "--device", "H200")


def check_learning_rate():
    said = charl(0, "tune", "mlp.ini", "--learning-rate", "-v")
    rows = [(float(a), float(b)) for a, b in re.findall(r"^ +(\d\.\de[-+]\d\d)  (\S+) ", said, re.M)]
    assert 20 < len(rows) <= 200 and rows[0][0] == 1e-7, said
    best = min(rows, key=lambda r: r[1])
    got = float(re.search(r"^\[optimizer\]\nlearning_rate = (\S+)$", said, re.M)[1])
    assert abs(got / (best[0] / 10) - 1) < 0.1 and best[1] < 0.8 * rows[0][1], said
    # A step that was under way at the end counts on no number of ranks.
    two = subprocess.run(["mpirun", "-n", "2", BIN / "charl", "tune", "mlp.ini", "--learning-rate", "-v", "device.share=yes"], check=True,
                         stdout=subprocess.PIPE, text=True)
    assert two.stdout and two.stdout in said, f"{said}\n{two.stdout}"


def check_errors():
    for text, arguments in (("charl has measured H200 only", ("--device", "A100")), ("8 devices need as many slices, and train.slices is 4",
                            ("--nodes", "8", "--device", "H200", "train.slices=4")), ("must be NODESxDEVICES", ("--nodes", "2x")),
                            ("must be NODESxDEVICES", ("--nodes", "0x8")), ("the rate of an all-reduce between the 2 devices", ("--nodes", "2"))):
        said = charl(2, "plan", "mlp.ini", *arguments)
        assert text in said, said
    assert "no/run" in charl(3, "plan", "mlp.ini", "--run", "no/run")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    charl(0, "data", "make", "digits", "digits.h5", "-t", "320", "-v", "100")
    pathlib.Path("text.txt").write_text("\n".join(map(str, range(40000 if len(sys.argv) == 1 and "CHARL_TEST_LONG" not in os.environ else 6000000))))
    charl(0, "data", "import", "text", "text.txt", "-o", "text.h5")
    pathlib.Path("mlp.ini").write_text("[data]\npath = digits.h5\n[model]\ntype = mlp\nhidden = 24\n[train]\nepochs = 2\nbatch_size = 64\nslices = 8\n")
    if sys.argv[1:] == ["--print"]:
        for name, lines in tables(MODELS).items():
            print(name, *lines, sep="\n")
        sys.exit()
    check_memory()
    check_numbers()
    check_run()
    check_largest_batch()
    check_learning_rate()
    check_errors()
    check_page(MODELS if os.environ.get("CHARL_TEST_LONG") == "1" else ["7B"], (8, 64, 1024) if os.environ.get("CHARL_TEST_LONG") == "1" else (8,))
