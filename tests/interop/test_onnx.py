#!/usr/bin/python3
"""What charl exports as ONNX passes onnx.checker and gives the same numbers in onnxruntime: every
operator that has an ONNX form, at every sample of its table, against its double reference; and
trained models, against `charl predict`.

onnx and onnxruntime come from PyPI, into a virtual environment that is kept beside the kernels that
the tests compile; exit code 77 means that they cannot be had. $CHARL_BIN_DIR holds the programs.
"""
import os
import pathlib
import subprocess
import sys

PACKAGES = ["onnx", "onnxruntime", "numpy", "h5py"]
BIN = pathlib.Path(os.environ.get("CHARL_BIN_DIR", ""))
CACHE = os.environ.get("CHARL_CACHE_DIR")
HOME = pathlib.Path(CACHE).parent if CACHE else BIN.parent.parent
VENV = HOME / f"python{sys.version_info.major}.{sys.version_info.minor}"


def enter_environment():
    """Go on as the virtual environment's Python, made first where there is none."""
    complete = VENV / "complete"
    if not complete.exists():
        for command in ([sys.executable, "-m", "venv", "--clear", VENV],
                        [VENV / "bin" / "python", "-m", "pip", "install", "-q", "--retries", "1",
                         "--disable-pip-version-check", *PACKAGES]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            if done.returncode != 0:
                print(f"skipped: {' '.join(map(str, command))}: {done.stdout[-400:]}")
                sys.exit(77)
        complete.touch()
    os.execv(VENV / "bin" / "python", [VENV / "bin" / "python", *sys.argv])


if pathlib.Path(sys.prefix) != VENV.absolute():
    enter_environment()

# pylint: disable=wrong-import-position
import json
import tempfile

import h5py
import numpy as np
import onnx
import onnxruntime

TYPES = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int64)": np.int64}


def run(code, *command):
    """Run a program that must end with `code`; returns what it printed."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}, not {code}:\n"
                 f"{done.stdout}")
    return done.stdout


def session(path):
    """A session of a model that the checker accepts, shapes included."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    if model.ir_version != 8 or [o.version for o in model.opset_import] != [17]:
        sys.exit(f"{path}: IR {model.ir_version}, opset {model.opset_import}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def deviation(got, want):
    """Largest |got - want| / (1 + |want|); NaN and infinity must stand in the same places."""
    odd = ~np.isfinite(want)
    if not np.array_equal(got[odd], want[odd].astype(got.dtype), equal_nan=True):
        return np.inf
    error = np.abs(got.astype(np.float64) - want)[~odd] / (1 + np.abs(want[~odd]))
    return error.max() if error.size else 0.0


def check_sample(folder, stem):
    s = session(folder / f"{stem}.onnx")
    feed = {}
    for value in s.get_inputs():
        shape = [-1 if d == "N" else d for d in value.shape]
        feed[value.name] = np.fromfile(folder / f"{stem}.{value.name}",
                                       TYPES[value.type]).reshape(shape)
    want = np.fromfile(folder / f"{stem}.out", np.float64)
    got = s.run(None, feed)[0]
    return deviation(got.flatten(), want) if got.size == want.size else np.inf


def check_samples(folder):
    said = run(0, BIN.parent.parent / "tests" / "interop" / "onnx_samples", folder).splitlines()
    stems = [line.split()[1] for line in said if line.startswith("model ")]
    worst = {stem: check_sample(folder, stem) for stem in stems}
    bad = [f"{stem}: {d:.1e}" for stem, d in worst.items() if not d < 1e-4]
    operators = {stem.rsplit("-", 1)[0] for stem in stems}
    print(f"{len(operators)} operators, {len(stems)} samples, "
          f"{len(said) - len(stems)} refused, largest deviation {max(worst.values()):.1e}")
    print("\n".join(line for line in said if line.startswith("refused ")))
    if bad or len(operators) < 25:
        sys.exit("\n".join(bad) or "so few operators?")


def main():
    with tempfile.TemporaryDirectory(prefix="charl-onnx-") as folder:
        folder = pathlib.Path(folder)
        check_samples(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
