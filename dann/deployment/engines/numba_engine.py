"""Runs programs as instructions of one function that numba compiles."""

import itertools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from dann.deployment.engines.instructions import Op
from dann.deployment.engines.numpy_engine import ENGINES
from dann.deployment.engines.translation import TYPES, Code
from dann.deployment.program import KINDS, Program

_WORTH_A_THREAD = 2**20  # words; about half a millisecond
_IN_CACHE = 2**21  # bytes of values
_ALL_ROWS = 2**62


@ENGINES.register("numba", summary="The fast one: one function that numba compiles at first use.")
class NumbaEngine:
    """Runs a whole program in one compiled function, without allocating between steps.

    Products of signs are 64-bit exclusive or and counts of bits; products of floats are SciPy's
    BLAS. Numba compiles the function once for all programs and keeps it on disk if it can write to
    a folder. A large batch is taken apart, so that its values stay in the cache.

    The engine divides rows of products of signs among threads if each thread gets about half a
    millisecond of work, so never for a dense layer and one example.

    Args:
        program: The program to run.
        threads: Maximum number of threads. Defaults to `1`.

    Raises:
        ImportError: If numba or SciPy cannot be imported.
    """

    def __init__(self, program: Program, threads: int = 1):
        self._run = import_machine().run
        self._code = Code(program)
        self._input_size = math.prod(program.input_shape)
        self._threads = threads
        self._products = [
            (place, int(step["rows"]), int(step["size"] * step["units"]))
            for place, step in enumerate(self._code.table)
            if step["op"] == Op.PRODUCTS and threads > 1
        ]
        self._kept = threading.local()  # callers in several threads do not share memory
        bytes_each = sum(
            size * np.dtype(TYPES[kind]).itemsize
            for kind, size in zip(KINDS, self._code.sizes, strict=True)
        )
        self._examples = max(1, threads * _IN_CACHE // max(1, bytes_each))

    def __call__(self, inputs: np.ndarray, outputs: np.ndarray) -> None:
        """Writes the logits of a batch of `float32` into `outputs`."""
        kind, place, shape = self._code.output
        size = math.prod(shape)
        parts = -(-len(inputs) // self._examples)
        bounds = [len(inputs) * number // parts for number in range(parts + 1)]
        for start, stop in itertools.pairwise(bounds):
            n = stop - start
            memory = self._memory(n)
            memory[0][: n * self._input_size] = inputs[start:stop].ravel()
            self._carry_out(n, memory)
            logits = memory[KINDS.index(kind)][n * place : n * (place + size)]
            outputs[start:stop] = logits.reshape(n, *shape)

    def _memory(self, n):
        """Returns room for the values of `n` examples, that of the last call if it is enough."""
        if n > getattr(self._kept, "room", 0):
            self._kept.memory = tuple(
                np.empty(n * size, TYPES[kind])
                for kind, size in zip(KINDS, self._code.sizes, strict=True)
            )
            self._kept.room = n
        return self._kept.memory

    def _carry_out(self, n, memory):
        def run(first, last, begin=0, end=_ALL_ROWS):
            self._run(self._code.table, first, last, n, begin, end, memory, self._code.constants)

        start = 0
        for place, shares in self._shares(n):
            run(start, place)
            with ThreadPoolExecutor(len(shares)) as pool:
                list(pool.map(partial(run, place, place + 1), *zip(*shares, strict=True)))
            start = place + 1
        run(start, len(self._code.table))

    def _shares(self, n):
        """The instructions that threads share: the place of each, and the rows of every thread."""
        for place, rows, work in self._products:
            threads = min(self._threads, n * rows, n * rows * work // _WORTH_A_THREAD)
            if threads > 1:
                bounds = [n * rows * number // threads for number in range(threads + 1)]
                yield place, list(itertools.pairwise(bounds))


def import_machine():
    """Returns the module of the compiled function.

    Raises:
        ImportError: If numba or SciPy cannot be imported.
    """
    try:
        import scipy.linalg.cython_blas  # noqa: F401, what numba multiplies matrices with

        from dann.deployment.engines import numba_machine
    except (ImportError, OSError) as error:  # OSError: a library that cannot be loaded
        raise ImportError(
            "Engine 'numba' needs numba and SciPy: `pip install dann[deploy]`, or use engine "
            f"'numpy'. Received: {error}"
        ) from error
    return numba_machine
