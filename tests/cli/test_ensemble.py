#!/usr/bin/python3
"""`charl predict A B C DATA`: probabilities and numbers are the means of those of the models alone, deviations those over the models, and loss and
metrics those of the means. Models of other data are refused. $CHARL_BIN_DIR holds the programs.
"""
import csv
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", ""))


def run(code, program, *arguments):
    """Both outputs of a program that ends with `code`."""
    done = subprocess.run([BIN / program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{program} {' '.join(arguments)}: {done.returncode}, not {code}: {done.stderr}"
    return done.stdout, done.stderr


def predict(*arguments):
    out, said = run(0, "charl", "predict", *arguments)
    said = dict(pair.split("=", 1) for pair in said.splitlines()[-1].split() if "=" in pair)
    return list(csv.DictReader(out.splitlines())), said


def near(got, want, what):
    assert abs(float(got) - want) <= 2e-7 * max(1, abs(want)), f"{what}: {got}, not {want}"


def make():
    """Two tables, and two models of each."""
    draw = random.Random(3)
    rows = [(draw.gauss(0, 1), draw.gauss(0, 1), draw.choice(["x", "y", "z"])) for _ in range(40)]
    with open("kinds.csv", "w", encoding="utf-8") as f:
        f.write("a,b,c,kind\n" + "".join(f"{a:.4f},{b:.4f},{c},{'one' if a + b > 0.3 else 'two' if a > b else 'three'}\n" for a, b, c in rows))
    with open("prices.csv", "w", encoding="utf-8") as f:
        f.write("a,b,c,price\n" + "".join(f"{a:.4f},{b:.4f},{c},{100 + 20 * a - 7 * b * b:.4f}\n" for a, b, c in rows))
    run(0, "charl", "data", "import", "csv", "kinds.csv", "--label", "kind", "-o", "kinds.h5")
    run(0, "charl", "data", "import", "csv", "prices.csv", "--label", "price", "--regression", "-o", "prices.h5")
    pathlib.Path("t.ini").write_text("[data]\npath = kinds.h5\n[model]\ntype = mlp\nhidden = 6\n[train]\nbatch_size = 8\nmax_steps = 20\n"
                                     "[optimizer]\nlearning_rate = 0.02\n[device]\nshare = yes\n", encoding="utf-8")
    for name, *more in (("k1", "run.seed=1"), ("k2", "run.seed=2"), ("k3", "run.seed=3", "model.hidden=4, 4"),
                        ("p1", "data.path=prices.h5", "run.seed=1"), ("p2", "data.path=prices.h5", "run.seed=2")):
        run(0, "charl-train", "-q", "t.ini", "-o", name, *more)


def check_classes():
    models = ["k1", "k2", "k3"]
    alone = [predict(m, "kinds.csv", "--all")[0] for m in models]
    rows, said = predict(*models, "kinds.csv", "--all")
    assert said["models"] == "3" and len(rows) == 40, said
    loss = right = 0
    for i, row in enumerate(rows):
        p = {k: [float(a[i][k]) for a in alone] for k in row if k.startswith("p_")}
        best = max(p, key=lambda k, p=p: statistics.mean(p[k]))
        for k, of in p.items():
            near(row[k], statistics.mean(of), f"row {i} {k}")
        assert row["predicted"] == best[2:], row
        near(row["probability"], statistics.mean(p[best]), f"row {i}")
        near(row["deviation"], statistics.stdev(p[best]), f"row {i}, deviation")
        loss -= math.log(statistics.mean(p["p_" + row["label"]])) / 40
        right += row["predicted"] == row["label"]
    assert abs(float(said["loss"]) - loss) < 1e-5 and abs(float(said["accuracy"]) - right / 40) < 1e-6, said
    assert "deviation" not in predict("k1", "kinds.csv")[0][0]


def check_numbers():
    alone = [predict(m, "prices.csv")[0] for m in ("p1", "p2")]
    rows, said = predict("p1", "p2/last.h5", "prices.csv")
    run(0, "charl", "predict", "p1", "p2", "prices.csv", "-o", "p.jsonl")
    lines = [json.loads(line) for line in pathlib.Path("p.jsonl").read_text(encoding="utf-8").splitlines()]
    assert list(rows[0]) == ["row", "target_price", "prediction_price", "deviation_price"], rows[0]
    off = 0
    for i, row in enumerate(rows):
        of = [float(a[i]["prediction_price"]) for a in alone]
        near(row["prediction_price"], statistics.mean(of), f"row {i}")
        assert abs(float(row["deviation_price"]) - statistics.stdev(of)) < 1e-4, row
        assert float(row["deviation_price"]) == lines[i]["deviation"]["price"]
        off += abs(statistics.mean(of) - float(row["target_price"])) / 40
    assert abs(float(said["mae"]) - off) < 1e-4 * off, said


def check_rows():
    """Rows that one model validated on and another was trained on."""
    for name, *more in (("f1", "data.fold=1/2"), ("f2", "data.fold=2/2"), ("g1", "data.fold=1/2", "run.seed=5")):
        run(0, "charl-train", "-q", "t.ini", "-o", name, *more)
    warned = "f2/last.h5 was trained with another fold or split than f1/last.h5, perhaps on some of these rows"
    assert warned in run(0, "charl", "predict", "f1", "f2")[1]
    assert "was trained with" not in run(0, "charl", "predict", "f1", "g1")[1]
    assert "was trained with" not in run(0, "charl", "predict", "f1", "f2", "kinds.csv")[1]


def make_texts():
    """Two models of texts of equal form, whose characters have other numbers."""
    for name, words in (("t1", ["red rose", "ruby rim"]), ("t2", ["sad zebra", "sly jazz"])):
        with open(f"{name}.csv", "w", encoding="utf-8") as f:
            f.write("text,label\n" + "".join(f"{words[i % 2]},{'yes' if i % 2 else 'no'}\n" for i in range(16)))
        run(0, "charl", "data", "import", "text-classes", f"{name}.csv", "--tokenizer", "chars", "--window", "12", "-o", f"{name}.h5")
        run(0, "charl-train", "-q", "texts.ini", f"data.path={name}.h5", "-o", name)


def check_refusals():
    pathlib.Path("texts.ini").write_text("[model]\ntype = sequential\n[layer e]\ntype = embedding\nvocab = 40\ndim = 4\n[layer m]\n"
                                         "type = mean\n[layer o]\ntype = linear\nout = 2\n[train]\nbatch_size = 8\nmax_steps = 2\n"
                                         "[device]\nshare = yes\n", encoding="utf-8")
    make_texts()
    assert "t2/last.h5 was trained on tokens of another tokenizer than t1/last.h5" in run(2, "charl", "predict", "t1", "t2", "t1.csv")[1]
    assert "p1/last.h5 was trained on other classes than k1/last.h5" in run(2, "charl", "predict", "k1", "p1", "kinds.csv")[1]
    assert "kinds.csv is not a checkpoint, but k1 is" in run(2, "charl", "predict", "kinds.csv", "k1")[1]


def main():
    with tempfile.TemporaryDirectory(prefix="charl-ensemble-") as folder:
        os.chdir(folder)
        make()
        check_classes()
        check_numbers()
        check_rows()
        check_refusals()


if __name__ == "__main__":
    sys.exit(main())
