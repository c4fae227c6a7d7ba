"""Training, by the program charl-train."""

import csv
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional

import numpy as np

from . import _bindings as c
from ._checkpoint import Checkpoint, PathLike
from ._library import HERE, Error, check, library, path_bytes
from ._model import Model

STOPPED = 75  # the exit status of a training that the same command continues


class Run:
    """A run directory, as `charl.train` returns it."""

    def __init__(self, directory: PathLike, stopped: bool = False) -> None:
        self.directory = pathlib.Path(directory)
        self.stopped = stopped  # before its end, with a checkpoint: the same call continues it

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r}{', stopped' if self.stopped else ''})"

    @property
    def best(self) -> Checkpoint:
        """The checkpoint of the best validation so far; the last one of a run without validation."""
        best = self.directory / "best.h5"
        return Checkpoint(best if best.exists() else self.directory / "last.h5")

    @property
    def last(self) -> Checkpoint:
        """The newest checkpoint."""
        return Checkpoint(self.directory / "last.h5")

    def model(self, **options: Any) -> Model:
        """The model of the best checkpoint, to predict with. `options` are those of `Model`."""
        best = self.directory / "best.h5"
        return Model(best if best.exists() else self.directory / "last.h5", **options)

    @property
    def metrics(self) -> Dict[str, np.ndarray]:
        """metrics.csv by columns: "step", "train/loss", "val/loss" and so on. What was not measured in a row is NaN;
        columns without a value are left out."""
        with open(self.directory / "metrics.csv", encoding="utf-8", newline="") as f:
            header, *rows = csv.reader(f)
        columns = {
            name: np.array([float(row[i]) if row[i] else np.nan for row in rows]) for i, name in enumerate(header)
        }
        return {name: values for name, values in columns.items() if not np.isnan(values).all()}


def _text(value: Any) -> str:
    """A value as a configuration has it."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(v) for v in value)
    return os.fspath(value) if hasattr(value, "__fspath__") else str(value)


def overrides(keys: Dict[str, Any]) -> List[str]:
    """SECTION.KEY=VALUE of the keywords."""
    found = []
    for name, value in keys.items():
        if isinstance(value, dict):
            found += [f"{name}.{key}={_text(v)}" for key, v in value.items()]
        elif "." in name:
            found.append(f"{name}={_text(value)}")
        elif "_" in name:
            found.append(f"{name.replace('_', '.', 1)}={_text(value)}")
        else:
            raise Error(
                f"{name}: no such argument; a key of the configuration is SECTION_KEY, such as train_epochs, "
                f"or {name}={{KEY: VALUE}}",
                "ERR_CONFIG",
            )
    return found


def _output_dir(config: bytes, texts: List[str]) -> str:
    """run.output_dir, as the program finds it. Mistakes in the configuration are reported here, before the program
    starts."""
    array = (c.charl_config_override * len(texts))(*(c.charl_config_override(text=os.fsencode(t)) for t in texts))
    loaded, value = ctypes.c_void_p(), ctypes.c_char_p()
    check(library.charl_config_load(config, array, len(texts), ctypes.byref(loaded)))
    try:
        check(library.charl_config_get_text(loaded, b"run.output_dir", ctypes.byref(value)))
        return os.fsdecode(value.value or b"")
    finally:
        library.charl_config_destroy(loaded)


def train(
    config: PathLike,
    output: Optional[PathLike] = None,
    ranks: int = 1,
    overwrite: bool = False,
    progress: bool = True,
    **keys: Any,
) -> Run:
    """Train what a configuration describes, as `charl train CONFIG` does, and return the run.

        run = charl.train("digits.ini", output="runs/digits", data_path="digits.h5", train_epochs=3)

    config     the INI file
    output     the run directory; None: run.output_dir
    ranks      processes; more than one need Open MPI
    overwrite  start a new run in a directory that contains another; otherwise that one continues
    progress   print the program's lines as they come, in a terminal or a notebook
    keys       values that replace those of the file: train_epochs=3 is train.epochs; train={"epochs": 3} and
               **{"train.epochs": 3} are the same. True and False are yes and no, a list has commas between its values

    Raises Error with the program's message if the training fails. An interrupt (Ctrl-C, or the notebook's button)
    lets the program save a checkpoint first, and the same call continues.
    """
    texts = overrides(keys) + ([f"run.output_dir={os.fspath(output)}"] if output is not None else [])
    directory = _output_dir(path_bytes(config), texts)
    command = (
        [os.path.join(HERE, "bin", "charl"), "launch", f"-n{ranks}"]
        if ranks != 1
        else [os.path.join(HERE, "bin", "charl-train")]
    )
    command += ["--progress=plain", *(["--overwrite"] if overwrite else []), os.fspath(config), *texts]
    errors: List[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    ) as process:

        def collect() -> None:
            for line in process.stderr or ():
                errors.append(line)
                if progress and "error: " not in errors[0]:  # what the exception will say is not said twice
                    print(line, end="", flush=True)

        reader = threading.Thread(target=collect, daemon=True)
        reader.start()
        interrupted = False
        while True:
            try:
                for line in process.stdout or ():
                    if progress:
                        print(line, end="", flush=True)
                reader.join()
                process.wait()
                break
            except KeyboardInterrupt:
                if process.poll() is None and not interrupted:
                    process.send_signal(signal.SIGINT)  # ignored if the terminal has sent one
                interrupted = True
                print("saving a checkpoint", file=sys.stderr, flush=True)
    if interrupted:
        raise KeyboardInterrupt
    if process.returncode not in (0, STOPPED):
        first = next((i for i, line in enumerate(errors) if "error: " in line), 0)
        message = "".join(errors[first:]).strip() or f"the training ended with status {process.returncode}"
        raise Error(message.split("error: ", 1)[-1], f"exit {process.returncode}")
    return Run(directory, stopped=process.returncode == STOPPED)
