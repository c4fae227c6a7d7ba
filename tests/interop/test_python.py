#!/usr/bin/python3
"""The Python package, made of this build as make_wheel.py makes it: its structs lie as the C compiler lays them out,
tensors are those that h5py reads, predictions those of `charl predict`, datasets come back as they were written, and
what fails is an exception with charl's message. If it failed, Python would read other values than charl's programs,
or crash.
"""

import csv
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
import zipfile

for module in ("numpy", "h5py"):
    if importlib.util.find_spec(module) is None:
        print(f"skipped: python3 has no {module}")
        sys.exit(77)

# pylint: disable=wrong-import-position
import h5py
import numpy as np

BIN = pathlib.Path(os.environ["CHARL_BIN_DIR"]).resolve()
BUILD = BIN.parent.parent
ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.pop("CHARL_TEST_DATA", None)  # charl warns of variables that it does not know
FLAGS = os.environ.pop("CHARL_TEST_FLAGS", "")


def fails(kind, text, function, *arguments, **keys):
    """A call raises charl.Error of this kind, whose message has the text."""
    try:
        function(*arguments, **keys)
    except charl.Error as e:
        assert e.kind == kind and text in str(e), f"{e.kind}: {e}"
    else:
        raise AssertionError(f"{function} has not failed: {text}")


def structs_are_those_of_c():
    """Sizes and offsets, by a program that the compiler makes of the headers."""
    from charl import _bindings as bindings  # pylint: disable=import-outside-toplevel

    lines, want = [], []
    for struct in bindings.STRUCTS:
        name = struct.__name__
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        want.append(f"{name} {bindings.sizeof(struct)}")
        for member, _ in struct._fields_:
            field = getattr(struct, member)
            lines.append(
                f'printf("{name}.{member} %zu %zu\\n", offsetof({name}, {member}), sizeof((({name} *)0)->{member}));'
            )
            want.append(f"{name}.{member} {field.offset} {field.size}")
    text = (
        "#include <stddef.h>\n#include <stdio.h>\n#include <charl/charl.h>\nint main(void)\n{\n"
        + "\n".join(lines)
        + "\nreturn 0;\n}\n"
    )
    pathlib.Path("layout.c").write_text(text, encoding="utf-8")
    subprocess.run(
        ["cc", "-std=c11", f"-I{ROOT}/include", f"-I{BUILD}/include", "layout.c", "-o", "layout"], check=True
    )
    got = subprocess.run(["./layout"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    assert got == want, [pair for pair in zip(got, want) if pair[0] != pair[1]]
    assert len(want) > 100


def datasets():
    """What is written is read."""
    rng = np.random.default_rng(1)
    images, labels = rng.integers(0, 256, (60, 28, 28), "u1"), (np.arange(60) % 3).astype("i8")
    data = charl.Dataset.write("images.h5", x=images, y=np.array(["ant", "bee", "cat"])[labels], val_split=0.2)
    assert (
        data.kind == "images"
        and data.rows == {"train": 48, "val": 12, "test": 0}
        and data.class_names == ["ant", "bee", "cat"]
    )
    x, y = data.read("train")
    assert x.dtype == "u1" and np.array_equal(x[:, 0], images[:48]) and np.array_equal(y, labels[:48])
    x, y = data.read("val", [3, 0])
    assert np.array_equal(x[:, 0], images[[51, 48]]) and np.array_equal(y, labels[[51, 48]])
    with h5py.File("images.h5") as f:
        assert np.array_equal(f["train/x"][:, 0], images[:48])
    table = charl.Dataset.write("table.h5", x=rng.normal(size=(50, 4)), y=rng.normal(size=50))
    assert table.kind == "regression" and table.read()[1].shape == (50, 1) and table.read()[0].dtype == "f4"
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        last = charl.Dataset.write("last.h5", x=np.zeros((8, 32, 30, 3), "u1"), y=np.arange(8) % 2)
    assert last.read()[0].shape == (8, 3, 32, 30) and "x: images of [32, 30, 3] have the channels last" in str(
        notes[0].message
    )
    with h5py.File("foreign.h5", "w") as f:
        f["a"], f["b"] = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    x, y = charl.Dataset("foreign.h5", x="/a", y="/b").read()
    assert np.array_equal(x, np.arange(20.0).reshape(10, 2)) and np.array_equal(y, np.arange(10) % 2)
    assert charl.Dataset("foreign.h5", x="/a").read()[1] is None

    fails(
        "ERR_CONFIG",
        "images.h5: exists already\n  hint: remove it or use overwrite=True",
        charl.Dataset.write,
        "images.h5",
        images,
        labels,
    )
    assert charl.Dataset.write("images.h5", images, labels, overwrite=True).class_names == []
    fails("ERR_DATA", "x has 60 rows but y has 3", charl.Dataset.write, "new.h5", images, labels[:3])
    fails(
        "ERR_DATA",
        "y is an array of object; it must have numbers or texts",
        charl.Dataset.write,
        "new.h5",
        images,
        np.array([None] * 60),
    )
    fails("ERR_DISK", "there is no folder", charl.Dataset.write, "nowhere/new.h5", images, labels)
    fails("ERR_INVALID", "row 48", data.read, "train", [48])
    fails("ERR_INVALID", "split is 'vall'; it is one of train, val, test", data.read, "vall")
    fails("ERR_INVALID", "rows are float64", data.read, "train", [0.5])
    fails("ERR_DATA", "", charl.Dataset, "absent.h5")
    assert not [name for name in os.listdir() if name.startswith((".charl", "new.h5"))]


def predictions(model, data, x, outputs):
    """Those of `charl predict`, to the last bit."""
    np.save("rows.npy", x)
    subprocess.run(
        (
            [BIN / "charl", "predict", model, "rows.npy", "--all", "-o", "rows.csv"]
            if data
            else [BIN / "charl", "predict", model, "rows.npy", "-o", "rows.csv"]
        ),
        check=True,
        stderr=subprocess.DEVNULL,
        env=PLAIN,
    )
    with open("rows.csv", encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f))[1:]
    want = np.array([[float(v) for v in row[-outputs:]] for row in rows])
    got = charl.Model(model).predict(x)
    assert np.array_equal(got.astype("f4"), want.astype("f4")), np.abs(got - want).max()


def trainings():
    """A training, what it leaves, and what stops it."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (160, 2, 3), "u1")
    y = (x[:, 0, 0] > 127).astype("i4")
    charl.Dataset.write("small.h5", x=x, y=y, val_split=0.2)
    pathlib.Path("small.ini").write_text(
        "[model]\ntype = mlp\nhidden = 8\n[train]\nbatch_size = 16\nepochs = 9\n[device]\nshare = yes\n",
        encoding="utf-8",
    )
    keys = {"train": {"epochs": 2}, "checkpoint.keep_last": 5, "log_interval": 1, "data_path": "small.h5"}
    run = charl.train("small.ini", output="run", progress=False, **keys)
    assert not run.stopped and run.last.step == 16 and run.directory == pathlib.Path("run")
    assert run.metrics["step"].tolist()[-1] == 16 and np.nanmin(run.metrics["val/loss"]) == np.float64(
        run.metrics["val/loss"][-1]
    )
    last = run.last
    assert last.state["optim_kind"] == "adamw" and last.state["seed"] == 42 and "hidden = 8" in last.config
    with h5py.File("run/last.h5") as f:
        tensors = {}
        f["model"].visititems(
            lambda name, item: tensors.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None
        )
        assert set(tensors) == {name for name in last if "/" not in name} and len(tensors) == 4
        for name, values in tensors.items():
            assert values.dtype == last[name].dtype and np.array_equal(values, last[name])
        assert np.array_equal(f["optim/exp_avg/fc1.weight"][()], last["optim/exp_avg/fc1.weight"])
    assert (
        charl.Checkpoint("run")["fc1.weight"].shape == (8, 6)
        and len(last) == len(list(last))
        and "fc9.weight" not in last
    )

    predictions("run/best.h5", True, x[:130], 2)
    model = run.model(max_rows=7)
    assert model.input_shape == (1, 2, 3) and model.predict(x[:0]).shape == (0, 2)
    assert np.array_equal(model.predict(x[:20]), charl.Model("run/best.h5").predict(x[:20].astype("f8")[:, None]))
    assert np.allclose(model.predict(x).sum(axis=1), 1)
    fails(
        "ERR_SHAPE",
        "x has the shape [3]; the model reads samples of [1, 2, 3], so it must be [n, 1, 2, 3]",
        model.predict,
        x[0, 0],
    )
    fails("ERR_DTYPE", "x has values that are not of the type uint8", model.predict, x / 255)
    fails("ERR_DTYPE", "x has values that are not of the type uint8", model.predict, -x.astype("i4") - 1)

    # It goes on, and what cannot be trained is said as the program says it.
    assert charl.train("small.ini", output="run", progress=False, **{**keys, "train": {"epochs": 3}}).last.step == 24
    fails(
        "ERR_CONFIG",
        'command line: [train] epochs: "x" is not an integer',
        charl.train,
        "small.ini",
        progress=False,
        train_epochs="x",
    )
    fails("exit 3", "nix.h5", charl.train, "small.ini", output="run2", progress=False, data_path="nix.h5")
    fails(
        "ERR_CONFIG",
        "epochs: no such argument; a key of the configuration is SECTION_KEY",
        charl.train,
        "small.ini",
        epochs=3,
    )
    fails("ERR_CONFIG", "absent.ini", charl.train, "absent.ini")
    fails(
        "ERR_CHECKPOINT",
        "small.h5 is a dataset of charl, not a checkpoint\n  hint: `charl data info",
        charl.Checkpoint,
        "small.h5",
    )
    stopped = charl.train(
        "small.ini", output="slow", progress=False, train_epochs=100000, run_max_time="0:00:01", data_path="small.h5"
    )
    assert stopped.stopped and stopped.last.step < 800000

    # Numbers, and half precision as the bits that NumPy has.
    charl.Dataset.write("numbers.h5", x=rng.normal(size=(64, 3)), y=rng.normal(size=(64, 2)) * 9 + 40, val_split=0.25)
    run = charl.train("small.ini", output="numbers", progress=False, data_path="numbers.h5", train_epochs=1)
    predictions("numbers/last.h5", False, np.asarray(charl.Dataset("numbers.h5").read()[0]), 2)
    assert np.abs(run.model().predict(np.zeros((1, 3))) - 40).max() < 20  # they are scaled for the loss

    # What it prints, as a script sees it.
    script = "import charl; charl.train('small.ini', output='said', data_path='small.h5', train_epochs=1)"
    said = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "charl 0." in said and " val step=8 " in said and "next " in said
    fails(
        "exit 8",
        "said/train.log is a file, not a folder",
        charl.train,
        "small.ini",
        "said/train.log/x",
        progress=False,
        data_path="small.h5",
    )


# Python itself has no sanitizer: what is loaded brings it, and needs it first.
if "sanitize" in FLAGS and "LD_PRELOAD" not in os.environ:
    runtime = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    os.execve(
        sys.executable, [sys.executable, *sys.argv], {**os.environ, "CHARL_TEST_FLAGS": FLAGS, "LD_PRELOAD": runtime}
    )
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    made = subprocess.run(
        [sys.executable, ROOT / "python/make_wheel.py", BUILD, "-o", "."],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=PLAIN,
    )
    assert made.returncode == 0, made.stdout
    with zipfile.ZipFile(made.stdout.strip()) as wheel:
        for entry in wheel.infolist():
            path = wheel.extract(entry, "site")
            os.chmod(path, entry.external_attr >> 16)
    sys.path.insert(0, "site")
    os.environ["PYTHONPATH"] = os.path.abspath("site")
    import charl

    cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert f"project(charl VERSION {charl.__version__} " in cmake
    structs_are_those_of_c()
    datasets()
    trainings()
    os.chdir("/")
print("passed")
