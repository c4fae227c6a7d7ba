#!/usr/bin/python3
"""A CSV file with every awkwardness, imported, trained on and predicted from, beside pandas and scikit-learn: the rows of the data set, its
means and deviations, and what the model is given for new rows are the same to 1e-6. If it failed, a model would see other numbers than the
ones that its user would have prepared by hand."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import environment

if importlib.util.find_spec("h5py") is None:
    print("skipped: python3 has no h5py")
    sys.exit(77)
environment.enter("tables")

# pylint: disable=wrong-import-position
import csv
import io
import random

import h5py
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

BIN = environment.BIN
ROWS, NEW, TOWNS = 300, 40, ["Ulm", "Köln", 'the "old"; town', "Zug"]


def run(*command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAIL: {command}: {done.stdout}")
    return done.stdout


def comma(v):
    return f"{v:.4f}".replace(".", ",")


def make_row(i, draw, towns):
    height = draw.gauss(170, 12)
    town = draw.choice(towns)
    day = f"{draw.randrange(1, 29):02}.{draw.randrange(1, 13):02}.{draw.randrange(1995, 2030)} {draw.randrange(24):02}:{draw.randrange(60):02}"
    kind = "tall" if height > 170 else "small"
    row = [i, comma(height), "" if draw.random() < 0.1 else comma(draw.gauss(0, 1e-3)), draw.choice(["NA", "?"]) if draw.random() < 0.2 else town,
           "" if draw.random() < 0.1 else day, draw.randrange(3, 6), "null" if draw.random() < 0.15 else draw.randrange(-5, 5), comma(draw.random()), kind]
    return row


def make_file(path, first, n, seed, towns):
    """As a spreadsheet writes it: semicolons, decimal commas, CRLF, a byte order mark, an index without a name."""
    draw = random.Random(seed)
    text = io.StringIO()
    table = csv.writer(text, delimiter=";", lineterminator="\r\n")
    table.writerow(["", "height", "weight", "town", "seen", "grade", "rest", "unused", "kind"])
    table.writerows(make_row(first + i, draw, towns) for i in range(n))
    path.write_bytes(b"\xef\xbb\xbf" + text.getvalue().encode())


def read(path):
    table = pd.read_csv(path, sep=";", decimal=",", index_col=0, na_values=["?"], encoding="utf-8-sig")
    seen = pd.to_datetime(table["seen"], format="%d.%m.%Y %H:%M")
    midnight = seen.dt.normalize()
    table["seen_days"] = (midnight - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    table["seen_month"] = seen.dt.month
    table["seen_weekday"] = seen.dt.dayofweek
    table["seen_hour"] = (seen - midnight) / pd.Timedelta(hours=1)
    table["town_missing"] = table["town"].isna().astype(float)
    return table


def prepare():
    """In the order of the file's columns."""
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    seen = ["seen_days", "seen_month", "seen_weekday", "seen_hour"]
    return ColumnTransformer([
        ("height", "passthrough", ["height"]),
        ("weight", SimpleImputer(strategy="median"), ["weight"]),
        ("town", OneHotEncoder(categories=[sorted(TOWNS, key=str.encode)], handle_unknown="ignore", sparse_output=False), ["town"]),
        ("town_missing", "passthrough", ["town_missing"]),
        ("seen", SimpleImputer(strategy="mean"), seen),
        ("grade", words, ["grade"]),
        ("rest", SimpleImputer(strategy="mean", add_indicator=True), ["rest"]),
    ])


def compare(what, have, want):
    have, want = np.asarray(have, float), np.asarray(want, float)
    assert have.shape == want.shape, f"FAIL: {what}: {have.shape}, want {want.shape}"
    worst = np.max(np.abs(have - want) / np.maximum(1, np.abs(want)))
    print(f"{what}: {have.shape}, largest difference {worst:.2e}")
    assert worst <= 1e-6, f"FAIL: {what}"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_file(folder / "old.csv", 0, ROWS, 1, TOWNS)
        make_file(folder / "new.csv", 1000, NEW, 2, TOWNS + ["Rome"])
        said = run(BIN / "charl", "data", "import", "csv", folder / "old.csv", "-o", folder / "old.h5", "--val-split", "0.2", "--drop", "unused",
                   "--categorical", "grade", "--na", "?", "--missing", "mean,weight:median,rest:flag")
        for text in ("separated by ;", "decimal comma", "has no name and counts the rows", 'column "seen" holds dates'):
            assert text in said, f"FAIL: {text} in {said}"
        table = read(folder / "old.csv")
        with h5py.File(folder / "old.h5") as data:
            train, val = data["train/x"][:], data["val/x"][:]
            mean, std = data["train/x"].attrs["mean"], data["train/x"].attrs["std"]
            train_y, val_y = data["train/y"][:], data["val/y"][:]
        # Heights are all different: they tell which rows were chosen for what.
        place = {np.float32(h): i for i, h in enumerate(table["height"])}
        assert len(place) == ROWS
        chosen = [[place[h] for h in x[:, 0]] for x in (train, val)]
        assert sorted(chosen[0] + chosen[1]) == list(range(ROWS)), "FAIL: the split loses rows"
        assert len(val) == ROWS // 5 and chosen[1] != list(range(ROWS - len(val), ROWS)), "FAIL: the last rows, not any"
        tall = (table["kind"] == "tall").to_numpy()
        assert abs(int(tall[chosen[1]].sum()) - 0.2 * tall.sum()) < 1, "FAIL: the split is not stratified"
        assert (train_y == tall[chosen[0]]).all() and (val_y == tall[chosen[1]]).all(), "FAIL: labels"
        steps = prepare().fit(table.iloc[chosen[0]])
        compare("training rows", train, steps.transform(table.iloc[chosen[0]]))
        compare("validation rows", val, steps.transform(table.iloc[chosen[1]]))
        scaler = StandardScaler().fit(steps.transform(table.iloc[chosen[0]]))
        compare("means", mean, scaler.mean_)
        compare("deviations", std, scaler.scale_)
        (folder / "run.ini").write_text(f"""[run]
output_dir = {folder}/run
[data]
path = {folder}/old.h5
[model]
type = mlp
hidden = 16
[train]
epochs = 4
batch_size = 40
[optimizer]
type = adamw
learning_rate = 1e-2
""")
        run(BIN / "charl-train", folder / "run.ini", "--progress=none")
        said = run(BIN / "charl", "predict", folder / "run/last.h5", folder / "new.csv", "--all", "-o", folder / "raw.csv")
        assert "do not occur" in said and "Rome" in said, f"FAIL: an unknown town in {said}"
        said = run(BIN / "charl", "data", "import", "csv", folder / "new.csv", "-o", folder / "new.h5", "--like", folder / "old.h5")
        assert "do not occur" in said and "Rome" in said, f"FAIL: an unknown town in {said}"
        with h5py.File(folder / "new.h5") as data, h5py.File(folder / "old.h5") as old:
            new = read(folder / "new.csv")
            compare("rows of a second file", data["train/x"], steps.transform(new))
            assert (data["train/y"][:] == (new["kind"] == "tall")).all(), "FAIL: labels of a second file"
            for text in ("columns", "targets", "class_names", "recipe"):
                assert data.attrs[text] == old.attrs[text], f"FAIL: {text} of a second file"
        np.save(folder / "new.npy", steps.transform(read(folder / "new.csv")).astype(np.float32))
        run(BIN / "charl", "predict", folder / "run/last.h5", folder / "new.npy", "--all", "-o", folder / "prepared.csv")
        raw, prepared = pd.read_csv(folder / "raw.csv"), pd.read_csv(folder / "prepared.csv")
        compare("predictions of new rows", raw[["p_small", "p_tall"]], prepared[["p_small", "p_tall"]])
        run(BIN / "charl", "predict", folder / "run/last.h5", folder / "new.h5", "--all", "-o", folder / "imported.csv")
        compare("predictions of a second file", raw[["p_small", "p_tall"]], pd.read_csv(folder / "imported.csv")[["p_small", "p_tall"]])
        assert len(raw) == NEW and (raw["predicted"] == raw["label"]).mean() > 0.8, "FAIL: it has learnt nothing"


if __name__ == "__main__":
    main()
