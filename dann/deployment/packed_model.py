"""Packed classifiers, loaded."""

import importlib
import numbers
import os
from typing import Any

import numpy as np

from dann.deployment.packed_file import read
from dann.deployment.program import Program

ENGINES = {
    "numpy": ("numpy_engine", "NumpyEngine"),
    "numba": ("numba_engine", "NumbaEngine"),
    "tensorflow": ("tensorflow_engine", "TensorFlowEngine"),
}


class PackedModel:
    """A packed classifier and the engine that runs it.

    Args:
        program: What to compute.
        engine: `"numpy"`, `"numba"` or `"tensorflow"`; `None` (default) takes numba where it can
            be imported, else NumPy.
        threads: How many threads numba may use, at least 1. They are used where there is enough to
            do, which a batch of one does not give. Defaults to `1`.

    Raises:
        ValueError: If there is no such engine, or `threads` is below 1.
        TypeError: If `threads` is no whole number.
        ImportError: If what the engine needs is not installed.
    """

    def __init__(self, program: Program, engine: str | None = None, threads: int = 1):
        if engine is None:
            engine = _default_engine()
        if engine not in ENGINES:
            raise ValueError(
                f"Argument `engine` must be one of {', '.join(ENGINES)}, or None. "
                f"Received: {engine!r}"
            )
        _check_count("threads", threads)
        self.program = program
        self.engine = engine
        self._run = _engine_class(engine)(program, threads)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.program.input_shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the logits of one input."""
        return self.program.output_shape

    def predict(self, inputs: Any, batch_size: int = 64) -> np.ndarray:
        """Returns the logits `(n, ...)` of inputs, in `float32`.

        Args:
            inputs: Array `(n, *input_shape)` of numbers; `n` may be 0.
            batch_size: Inputs at a time, at least 1. Defaults to `64`.

        Raises:
            TypeError: If the inputs are no real numbers, or `batch_size` is no whole number.
            ValueError: If the inputs have another shape, or `batch_size` is below 1.
        """
        inputs = np.asarray(inputs)
        if inputs.dtype.kind in "cmMOSU":  # bfloat16 is none of NumPy's own kinds
            raise TypeError(f"Inputs must be real numbers. Received: inputs of {inputs.dtype}")
        if inputs.shape[1:] != self.input_shape or inputs.ndim == 0:
            raise ValueError(
                f"Inputs must have the shape (n, {', '.join(map(str, self.input_shape))}). "
                f"Received: inputs of shape {inputs.shape}"
            )
        _check_count("batch_size", batch_size)
        outputs = np.empty((len(inputs), *self.output_shape), "float32")
        for start in range(0, len(inputs), batch_size):
            with np.errstate(over="ignore"):  # inf, as in Keras
                batch = np.ascontiguousarray(inputs[start : start + batch_size], "float32")
            outputs[start : start + batch_size] = self._run(batch)
        return outputs


def _check_count(name, value):
    if not isinstance(value, numbers.Integral):
        raise TypeError(f"Argument `{name}` must be a whole number. Received: {value!r}")
    if value < 1:
        raise ValueError(f"Argument `{name}` must be at least 1. Received: {value}")


def _default_engine():
    try:
        _engine_class("numba")
    except ImportError:
        return "numpy"
    return "numba"


def _engine_class(engine):
    module, name = ENGINES[engine]
    return getattr(importlib.import_module(f"dann.deployment.{module}"), name)


def load(path: str | os.PathLike, engine: str | None = None, threads: int = 1) -> PackedModel:
    """Loads a packed classifier; see `PackedModel` for the arguments.

    Nothing is computed before the whole file is checked.

    Raises:
        FileNotFoundError: If the file is not there.
        PackedFileError: If it is no packed file, of another version, damaged or cut short.
        ValueError: If there is no such engine, or `threads` is below 1.
        TypeError: If `threads` is no whole number.
        ImportError: If what the engine needs is not installed.
    """
    return PackedModel(read(path), engine, threads)
