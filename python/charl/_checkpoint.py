"""Checkpoints as NumPy arrays."""

import ctypes
import os
from collections.abc import Mapping
from typing import Any, Dict, Iterator, Union

import numpy as np

from . import _bindings as c
from ._library import DTYPES, check, is_bf16, library, path_bytes, shape

PathLike = Union[str, "os.PathLike[str]"]


def resolve(path: PathLike) -> bytes:
    """The checkpoint of a run directory; any other path unchanged."""
    out = ctypes.c_void_p()
    check(library.charl_run_checkpoint(path_bytes(path), ctypes.byref(out)))
    try:
        return ctypes.string_at(out.value)
    finally:
        library.charl_free(out)


class Checkpoint(Mapping):
    """The tensors of a checkpoint by name, read when they are asked for.

        c = charl.Checkpoint("runs/digits/best.h5")     # or the folder of a run: its last checkpoint
        c["fc1.weight"]                                 # a weight, as a NumPy array
        c["optim/exp_avg/fc1.weight"]                   # what is no weight has the name of its group before it
        c.step, c.config

    bf16 becomes float32, which has the same values. The checksum of a tensor is compared when it is read.
    """

    def __init__(self, path: PathLike) -> None:
        self._reader = ctypes.c_void_p()
        check(library.charl_checkpoint_open(resolve(path), ctypes.byref(self._reader)))
        self._info = library.charl_checkpoint_get_info(self._reader)
        self._tensors = {}
        for i in range(self._info.n_tensors):
            tensor = library.charl_checkpoint_get_tensor(self._reader, i)
            group, name = tensor[0].group.decode(), tensor[0].name.decode()
            self._tensors[name if group == "model" else f"{group}/{name}"] = tensor

    def __del__(self) -> None:
        if getattr(self, "_reader", None):
            library.charl_checkpoint_close(self._reader)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._tensors:
            raise KeyError(name)
        t = self._tensors[name]
        out = np.empty(shape(t[0].shape), DTYPES[t[0].dtype])
        check(library.charl_checkpoint_read(self._reader, t, out.ctypes.data))
        return (out.astype("u4") << 16).view("f4") if is_bf16(t[0].dtype) else out

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    @property
    def state(self) -> Dict[str, Any]:
        """Counters and names of the training: step, epoch, seed, best_metric, device, optim_kind and so on
        (charl/checkpoint.h)."""
        state = self._info.state[0]
        values = {name: getattr(state, name) for name, _ in c.charl_checkpoint_state._fields_}
        return {
            name: (v or b"").decode(errors="replace") if v is None or isinstance(v, bytes) else v
            for name, v in values.items()
        }

    @property
    def step(self) -> int:
        """Steps done."""
        return self.state["step"]

    @property
    def config(self) -> str:
        """The configuration of the training, every key."""
        return (self._info.config_resolved or self._info.config_text or b"").decode(errors="replace")
