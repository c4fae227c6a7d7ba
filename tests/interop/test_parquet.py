#!/usr/bin/python3
"""Parquet files of pyarrow: every compression, both versions of pages, with and without dictionaries, in groups of rows. What charl imports equals
the same table in CSV, bit for bit, and the values that pyarrow reads; predictions from both are the same. What charl does not read is refused by
name."""
import decimal
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import environment

if importlib.util.find_spec("h5py") is None:
    print("skipped: python3 has no h5py")
    sys.exit(77)
environment.enter("parquet")

# pylint: disable=wrong-import-position
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

BIN = environment.BIN.resolve()
ROWS = 1000
NUMBERS = ["f64", "f32", "i8", "u64"]


def run(*command, code=0, **more):
    done = subprocess.run([BIN / "charl", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env=dict(os.environ, **more))
    if done.returncode != code:
        sys.exit(f"FAIL: {command}: exit code {done.returncode}, not {code}: {done.stdout}")
    return done.stdout


def refused(text, *command, **more):
    said = run(*command, code=3, **more)
    assert text in said, f"{command}: {text!r} is not in {said!r}"


def table():
    draw = np.random.default_rng(1)
    days = draw.integers(-5000, 30000, ROWS)
    return pd.DataFrame({
        "f64": draw.normal(size=ROWS) * 10.0 ** draw.integers(-30, 30, ROWS),
        "f32": draw.normal(size=ROWS).astype("f4"),
        "i8": draw.integers(-128, 128, ROWS).astype("i1"),
        "u64": draw.integers(2**62, 2**63, ROWS).astype("u8") * 2 + 1,
        "flag": draw.integers(0, 2, ROWS) > 0,
        "town": draw.choice(["Ulm", "Köln", "a, b", 'the "old" town'], ROWS),
        "day": [pd.Timestamp("1970-01-01").date() + pd.Timedelta(days=int(k)) for k in days],
        "seen": pd.to_datetime(draw.integers(-10**9, 2 * 10**9, ROWS), unit="s"),
        "gaps": pd.array(np.where(draw.random(ROWS) < 0.3, None, draw.integers(0, 100, ROWS)), dtype="Int32"),
        "price": [decimal.Decimal(int(k)).scaleb(-2) for k in draw.integers(-10**6, 10**6, ROWS)],
        "y": draw.normal(size=ROWS),
    })


def same(a, b):
    with h5py.File(a) as one, h5py.File(b) as other:
        for name in ("train/x", "train/y", "val/x", "val/y"):
            assert np.array_equal(one[name][()], other[name][()]), f"{a}: {name} differs from {b}"
        assert list(one.attrs["columns"]) == list(other.attrs["columns"])


def check_tables(frame):
    options = ["--label", "y", "--regression", "--missing", "gaps:mean", "--val-split", "0.2", "--overwrite"]
    frame.to_csv("t.csv", index=False)
    run("data", "import", "csv", "t.csv", "-o", "csv.h5", *options)
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    for name, how in {"snappy": {}, "none": {"compression": "none"}, "gzip": {"compression": "gzip"}, "zstd": {"compression": "zstd"},
                      "version2": {"data_page_version": "2.0", "compression": "zstd", "row_group_size": 300, "data_page_size": 500},
                      "version2_snappy": {"data_page_version": "2.0"},
                      "plain": {"use_dictionary": False, "row_group_size": 77}, "checksums": {"write_page_checksum": True},
                      "int96": {"use_deprecated_int96_timestamps": True}}.items():
        pq.write_table(whole, f"{name}.parquet", **how)
        run("data", "import", "parquet", f"{name}.parquet", "-o", f"{name}.h5", *options)
        same(f"{name}.h5", "csv.h5")
    with h5py.File("snappy.h5") as f:  # in the order of the rows
        run("data", "import", "parquet", "snappy.parquet", "-o", "all.h5", "--label", "y", "--regression", "--missing", "gaps:mean")
        columns = [c.decode() if isinstance(c, bytes) else c for c in np.atleast_1d(f.attrs["columns"])]
    read = pq.read_table("snappy.parquet").to_pandas()
    with h5py.File("all.h5") as f:
        names = "\n".join(columns).split("\n")
        for name in NUMBERS:
            got = f["train/x"][:, names.index(name)]
            assert np.array_equal(got, read[name].to_numpy().astype("f8").astype("f4")), f"{name}: other values than pyarrow's"


def check_predictions():
    pathlib.Path("t.ini").write_text("[data]\npath = csv.h5\n[model]\ntype = mlp\nhidden = 4\n[train]\nmax_steps = 3\nbatch_size = 16\n"
                                     "[optimizer]\ntype = adam\n", encoding="utf-8")
    run("train", "t.ini", "-q", "-o", "run", "--overwrite")
    for kind in ("csv", "parquet"):
        path = "t.csv" if kind == "csv" else "version2.parquet"
        run("predict", "run/last.h5", path, "-o", f"{kind}.out.csv")
    assert pathlib.Path("csv.out.csv").read_text() == pathlib.Path("parquet.out.csv").read_text()


def check_texts():
    texts = [f"review {i}: größer\nals {i}" for i in range(200)]
    frame = pd.DataFrame({"text": texts, "label": ["pos" if i % 3 else "neg" for i in range(200)]})
    frame.to_parquet("reviews.parquet")
    frame.to_json("reviews.jsonl", orient="records", lines=True, force_ascii=False)
    for what in ("text", "text-classes"):
        for kind in ("parquet", "jsonl"):
            run("data", "import", what, f"reviews.{kind}", "-o", f"{kind}.h5", "--overwrite")
        lists = []
        for kind in ("parquet", "jsonl"):
            with h5py.File(f"{kind}.h5") as f:
                lists.append({name: f["train"][name][()] for name in f["train"]})
        assert lists[0].keys() == lists[1].keys()
        assert all(np.array_equal(lists[0][name], lists[1][name]) for name in lists[0]), what
    refused('there is no column "txt" among "text", "label" (did you mean "text"?)', "data", "import", "text", "reviews.parquet", "--field", "txt",
            "-o", "x.h5")


def check_refusals(frame):
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(whole, "delta.parquet", use_dictionary=False, column_encoding={"i8": "DELTA_BINARY_PACKED"})
    refused('column "i8" has the encoding DELTA_BINARY_PACKED, which charl does not read', "data", "import", "parquet", "delta.parquet", "-o", "x.h5")
    for codec in ("lz4", "brotli"):
        pq.write_table(whole, f"{codec}.parquet", compression=codec)
        refused(f"is compressed with {codec}, which charl does not read", "data", "import", "parquet", f"{codec}.parquet", "-o", "x.h5")
    for codec in ("snappy", "zstd"):
        refused(f"is compressed with {codec}, and lib{codec}.so.1 is not installed", "data", "import", "parquet", f"{codec}.parquet", "-o", "x.h5",
                CHARL_FAULT="parquet.no_library:*")
    body = pathlib.Path("snappy.parquet").read_bytes()
    pathlib.Path("cut.parquet").write_bytes(body[:len(body) // 2])
    refused("cut short", "data", "import", "parquet", "cut.parquet", "-o", "x.h5")
    run("data", "import", "csv", "snappy.parquet", "--skip", "1", "-o", "x.h5", code=2)


def main():
    folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
    os.chdir(folder.name)
    frame = table()
    check_tables(frame)
    check_predictions()
    check_texts()
    check_refusals(frame)
    print("tables, predictions, texts and refusals: passed")


if __name__ == "__main__":
    main()
