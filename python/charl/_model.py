"""Trained models that answer."""

import ctypes
import os
from typing import Any, List, Optional, Tuple

import numpy as np

from . import _bindings as c
from ._checkpoint import PathLike, resolve
from ._library import DTYPES, Error, check, library, names, options, shape


class Model:
    """A trained model: open it once, then predict any number of times, from any number of threads.

        model = charl.Model("runs/digits/best.h5")
        p = model.predict(images)               # [n, 10] probabilities
        p.argmax(axis=1)

    path      a checkpoint, the folder of a run (its last checkpoint), or safetensors together with `config`, the
              text of the configuration
    device    as `charl devices` lists them; None: CHARL_DEVICE, or the best
    max_rows  rows that are computed at once
    """

    def __init__(
        self, path: PathLike, device: Optional[str] = None, max_rows: int = 64, config: Optional[str] = None
    ) -> None:
        self._model = ctypes.c_void_p()
        o = options(
            c.charl_inference_options,
            max_rows=max_rows,
            device=device and device.encode(),
            config_text=config and config.encode(),
        )
        check(library.charl_inference_open(resolve(path), ctypes.byref(o), ctypes.byref(self._model)))
        self._info = library.charl_inference_get_info(self._model)
        self._schema = self._info.schema[0]
        self._process = os.getpid()

    def __del__(self) -> None:
        if getattr(self, "_model", None) and self._process == os.getpid():
            library.charl_inference_close(self._model)

    @property
    def input_shape(self) -> Tuple[int, ...]:
        """Shape of a sample."""
        return shape(self._info.x_shape)

    @property
    def class_names(self) -> List[str]:
        """Names of the classes, in the order of the probabilities; empty if they have none."""
        return names(self._schema.class_names)

    @property
    def targets(self) -> List[str]:
        """Names of the targets; empty if they have none."""
        return names(self._schema.targets)

    def _rows(self, x: Any) -> np.ndarray:
        """x as the model reads it: of the type of its training data, which loses no integer."""
        array, want = np.asarray(x), self.input_shape
        if array.ndim == 0 or [e for e in array.shape[1:] if e != 1] != [e for e in want if e != 1]:
            rows = f"[{', '.join(map(str, ['n', *want]))}]"
            raise Error(
                f"x has the shape {list(array.shape)}; the model reads samples of {list(want)}, so it must be {rows}",
                "ERR_SHAPE",
            )
        dtype = DTYPES[self._info.x_dtype]
        if array.dtype.kind not in "biuf":
            raise Error(f"x is an array of {array.dtype}; the model reads numbers", "ERR_DTYPE")
        with np.errstate(invalid="ignore"):
            rows = np.ascontiguousarray(array, dtype).reshape((len(array),) + want)
        if dtype.kind in "iu" and not np.array_equal(rows.reshape(array.shape), array):
            raise Error(
                f"x has values that are not of the type {dtype}, of which the training data are; "
                "do not scale them: the model does",
                "ERR_DTYPE",
            )
        return rows

    def outputs(self, x: Any) -> np.ndarray:
        """Outputs of the last layer, [n, outputs] f32: logits of classes and labels."""
        rows = self._rows(x)
        out = np.empty((len(rows), self._info.n_outputs), "f4")
        for i in range(0, len(rows), self._info.max_rows):
            n = min(self._info.max_rows, len(rows) - i)
            check(library.charl_inference_run(self._model, rows[i:].ctypes.data, n, out[i:].ctypes.data))
        return out

    def predict(self, x: Any) -> np.ndarray:
        """What `charl predict` writes, for samples as the training data had them, before normalization.

        x  [n, input_shape]
        Returns [n, answers] f64: the probability of each class, or of each label; the predicted values.
        """
        outputs = self.outputs(x)
        answers = np.empty((len(outputs), library.charl_inference_get_answer_count(self._model)))
        check(library.charl_inference_answer(self._model, outputs.ctypes.data, len(outputs), answers.ctypes.data))
        return answers
