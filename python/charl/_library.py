"""The shared library, and how its failures become exceptions."""

import ctypes
import os
import re
from typing import Any, List, Optional

import numpy as np

from . import _bindings as c

HERE = os.path.dirname(os.path.abspath(__file__))


class Error(Exception):
    """What charl reports: the message says what is wrong, with values, and how to mend it.

    `kind` names the sort of failure: "ERR_DATA" and so on, as charl/status.h lists them, or the exit status of a
    training, such as "exit 3".
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def _load() -> ctypes.CDLL:
    folder = os.path.join(HERE, "lib")
    found = sorted(
        name
        for name in (os.listdir(folder) if os.path.isdir(folder) else [])
        if re.match(r"libcharl(-train)?\.so", name)
    )
    if not found:
        raise ImportError(f"{folder} holds no libcharl.so: install the wheel of charl, which brings it")
    library = ctypes.CDLL(
        os.path.join(folder, found[0])
    )  # libcharl-train brings libcharl; in the wheel of a release all is in that
    for name, (result, parameters) in c.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    return library


library = _load()


def check(status: int) -> None:
    """Raise the failure of a call."""
    if status != 0:
        text = library.charl_error_message().decode(errors="replace")
        raise Error(text.replace("; HINT ", "\n  hint: "), library.charl_status_name(status).decode())


def path_bytes(path: Any) -> bytes:
    """A path, as the library takes it."""
    return os.fsencode(os.fspath(path))


def options(struct: Any, **members: Any) -> Any:
    """Options begin with their size."""
    return struct(struct_size=ctypes.sizeof(struct), **members)


def names(text: Optional[bytes]) -> List[str]:
    """A list of the library: names with newlines between them."""
    return text.decode(errors="replace").split("\n") if text else []


def _numpy_types() -> dict:
    kinds = {}
    for i in range(64):
        name = library.charl_dtype_name(i).decode()
        if name == "?":
            break
        size = library.charl_dtype_size(i)
        kinds[i] = np.dtype("u2") if name == "bf16" else np.dtype(f"{name[0]}{size}")
    return kinds


DTYPES = _numpy_types()  # by charl_dtype; the bits of bf16, which NumPy does not have


def is_bf16(dtype: int) -> bool:
    """Whether DTYPES has the bits only."""
    return library.charl_dtype_name(dtype) == b"bf16"


def shape(s: c.charl_shape) -> tuple:
    """Extents."""
    return tuple(s.dim[: s.ndim])
