"""Packed classifiers, loaded."""

import os
from typing import Any

import numpy as np

from dann.checks import check_integer, check_shape
from dann.deployment.engines import ENGINES
from dann.deployment.engines.numba_engine import import_machine
from dann.deployment.packed_file import read
from dann.deployment.program import Program


class PackedModel:
    """A packed classifier and the engine that runs it.

    Args:
        program: The program of a packed file.
        engine: `"numba"`, `"numpy"`, or `None` (default): numba if it can be imported, else NumPy.
        threads: How many threads numba may use, at least 1. It uses them if there is enough work;
            a batch of one has too little. Defaults to `1`.

    Raises:
        ValueError: If there is no such engine, or `threads` is below 1.
        TypeError: If `threads` is not an integer.
        ImportError: If the engine needs a package that is not installed.
    """

    def __init__(self, program: Program, engine: str | None = None, threads: int = 1):
        self.program = program
        self.engine = _fastest_engine() if engine is None else engine
        threads = check_integer("threads", threads, low=1)
        self._run = ENGINES.entry(self.engine).thing(program, threads)

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
            TypeError: If the inputs are not real numbers, or `batch_size` is not an integer.
            ValueError: If the inputs have another shape, or `batch_size` is below 1.
        """
        inputs = np.asarray(inputs)
        if inputs.dtype.kind in "cmMOSU":  # bfloat16 is not among NumPy's own kinds
            raise TypeError(f"Inputs must be real numbers. Received: inputs of {inputs.dtype}")
        check_shape("Inputs", inputs.shape, ("batch", *self.input_shape))
        batch_size = check_integer("batch_size", batch_size, low=1)
        outputs = np.empty((len(inputs), *self.output_shape), "float32")
        for start in range(0, len(inputs), batch_size):
            with np.errstate(over="ignore"):  # inf, as in Keras
                batch = np.ascontiguousarray(inputs[start : start + batch_size], "float32")
            self._run(batch, outputs[start : start + batch_size])
        return outputs


def _fastest_engine():
    try:
        import_machine()
    except ImportError:
        return "numpy"
    return "numba"


def load(path: str | os.PathLike, engine: str | None = None, threads: int = 1) -> PackedModel:
    """Loads a packed classifier; see `PackedModel` for arguments and errors.

    It checks the whole file before it computes anything.

    Raises:
        FileNotFoundError: If the file is not there.
        PackedFileError: If it is not a packed file, or is of another version, damaged or cut short.
    """
    return PackedModel(read(path), engine, threads)
