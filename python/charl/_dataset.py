"""Datasets from and to NumPy arrays."""

import ctypes
import os
import tempfile
import warnings
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from . import _bindings as c
from ._checkpoint import PathLike
from ._library import DTYPES, Error, check, library, names, options, path_bytes, shape


def _splits() -> Dict[str, int]:
    found: Dict[str, int] = {}
    while library.charl_split_name(len(found)) != b"?":
        found[library.charl_split_name(len(found)).decode()] = len(found)
    return found


class Dataset:
    """A dataset: samples and targets in the splits train, val and test.

        data = charl.Dataset.write("digits.h5", x=images, y=labels, val_split=0.1)
        data.rows                                   # {"train": 900, "val": 100, "test": 0}
        x, y = data.read("val")                     # all rows; or read("val", [0, 5])

    `x` and `y` name the arrays of an HDF5 file that is not in charl's layout. `window` is the length of a sample of
    tokens.
    """

    def __init__(self, path: PathLike, x: Optional[str] = None, y: Optional[str] = None, window: int = 0) -> None:
        self._data = ctypes.c_void_p()
        o = options(c.charl_dataset_options, x=x and x.encode(), y=y and y.encode(), window=window, unlabelled=True)
        check(library.charl_dataset_open(path_bytes(path), ctypes.byref(o), ctypes.byref(self._data)))
        self._info = c.charl_dataset_info()
        library.charl_dataset_get_info(self._data, ctypes.byref(self._info))
        self.path = os.fspath(path)

    def __del__(self) -> None:
        if getattr(self, "_data", None):
            library.charl_dataset_close(self._data)

    def __repr__(self) -> str:
        return f"Dataset({self.path!r}: {self.kind}, {', '.join(f'{n} {s}' for s, n in self.rows.items() if n)})"

    @property
    def kind(self) -> str:
        """images, tokens, table, regression or sequences."""
        return library.charl_dataset_kind_name(self._info.kind).decode()

    @property
    def rows(self) -> Dict[str, int]:
        """Samples of each split."""
        return {name: self._info.rows[i] for name, i in _splits().items()}

    @property
    def class_names(self) -> List[str]:
        """Names of the classes; empty if they have none."""
        return names(self._info.class_names)

    @property
    def columns(self) -> List[str]:
        """Names of a table's columns; empty if they have none."""
        return names(self._info.columns)

    def read(self, split: str = "train", rows: Any = None) -> Tuple[np.ndarray, Optional[np.ndarray]]:
        """Samples and targets of a split: all, or those of the numbers `rows`. Targets are None where the data have
        none."""
        if split not in self.rows:
            raise Error(f"split is '{split}'; it is one of {', '.join(self.rows)}", "ERR_INVALID")
        wanted = np.arange(self.rows[split]) if rows is None else np.atleast_1d(np.asarray(rows))
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise Error(
                f"rows are {wanted.dtype} of shape {wanted.shape}; they are the numbers of samples, integers from 0",
                "ERR_INVALID",
            )
        wanted = np.ascontiguousarray(wanted, "i8")
        x = np.empty((len(wanted),) + shape(self._info.x_shape), DTYPES[self._info.x_dtype])
        y = (
            np.empty((len(wanted),) + shape(self._info.y_shape), DTYPES[self._info.y_dtype])
            if self._info.labelled
            else None
        )
        check(
            library.charl_dataset_read(
                self._data,
                _splits()[split],
                wanted.ctypes.data,
                len(wanted),
                x.ctypes.data,
                None if y is None else y.ctypes.data,
            )
        )
        return x, y

    @staticmethod
    def write(path: PathLike, x: Any, y: Any, val_split: float = 0.0, overwrite: bool = False) -> "Dataset":
        """Write arrays to a new dataset, and open it. Row i of both is sample i.

        x          [n, ...] numbers: images [n, channels, height, width] or [n, height, width], or the columns of a
                   table [n, k]. u8, u16, u32 and f32 are stored as they are, others as f32
        y          [n] integers or texts: classes; [n] or [n, k] floats: values
        val_split  fraction that becomes the validation set: the last rows, so shuffle sorted ones first
        overwrite  replace an existing file

        The file is written atomically, with mean, standard deviation and checksums. Memory: none beside the arrays;
        for a moment the arrays are in files beside `path`.
        """

        @dict(c.charl_import_options._fields_)["noted"]
        def noted(_: Any, text: bytes) -> None:
            notes.append(text.decode(errors="replace"))

        notes: List[str] = []
        folder = os.path.dirname(os.path.abspath(os.fspath(path)))
        if not os.path.isdir(folder):
            raise Error(f"{os.fspath(path)}: there is no folder {folder}", "ERR_DISK")
        with tempfile.TemporaryDirectory(prefix=".charl-", dir=folder) as temporary:
            files = (ctypes.c_char_p * 2)()
            for i, (name, array) in enumerate((("x", x), ("y", y))):
                files[i] = path_bytes(os.path.join(temporary, name + ".npy"))
                array = np.asarray(array)
                if array.dtype.kind not in "biufU":
                    raise Error(
                        f"{name} is an array of {array.dtype}; it must have numbers"
                        + (" or texts" if name == "y" else ""),
                        "ERR_DATA",
                    )
                np.save(os.fsdecode(files[i]), array, allow_pickle=False)
            o = options(c.charl_import_options, val_split=val_split, overwrite=overwrite, noted=noted)
            try:
                check(library.charl_import(b"npy", None, files, 2, path_bytes(path), ctypes.byref(o)))
            except Error as e:
                message = (
                    str(e)
                    .replace("--overwrite", "overwrite=True")
                    .replace(os.path.join(temporary, "x.npy"), "x")
                    .replace(os.path.join(temporary, "y.npy"), "y")
                )
                raise Error(message, e.kind) from None
        for note in notes:
            warnings.warn(note.replace(os.path.join(temporary, "x.npy"), "x"), stacklevel=2)
        return Dataset(path)
