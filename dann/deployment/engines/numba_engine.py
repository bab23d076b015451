"""Runs programs with NumPy, and their binary steps with kernels that numba compiles."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dann.deployment.engines.numpy_engine import ENGINES, NumpyEngine, Run
from dann.deployment.program import Program

_WORTH_A_THREAD = 2**20  # words; about half a millisecond


@ENGINES.register("numba", summary="The fast one, with kernels that numba compiles at first use.")
class NumbaEngine(NumpyEngine):
    """Computes the products of signs with 64-bit exclusive or and counts of bits.

    Numba compiles the kernels at their first use and keeps them on disk if it can write to a
    folder. The engine divides rows among threads if each thread gets about half a millisecond of
    work, so never for a dense layer and one example.

    Args:
        program: The program to run.
        threads: Maximum number of threads. Defaults to `1`.

    Raises:
        ImportError: If numba cannot be imported.
    """

    def __init__(self, program: Program, threads: int = 1):
        self._kernels = import_kernels()
        super().__init__(program, threads)

    def products(self, kernel: np.ndarray, size: int) -> Run:
        units, words = kernel.shape
        lanes, products = self._kernels.LANES, self._kernels.products
        tiles = np.zeros((-(-units // lanes), lanes, words), "uint64")
        tiles.reshape(-1, words)[:units] = kernel
        tiles = np.ascontiguousarray(tiles.transpose(0, 2, 1))

        def run(rows):
            rows = np.ascontiguousarray(rows)
            sums = np.empty((len(rows), len(tiles) * lanes), "int32")
            self._share(
                lambda first, last: products(rows, tiles, size, sums, first, last), rows, units
            )
            return sums[:, :units]

        return run

    def _share(self, work, rows, units):
        """Calls `work` with ranges of rows, in as many threads as are worth it."""
        count = len(rows)
        threads = min(self.threads, count, rows.size * units // _WORTH_A_THREAD)
        if threads < 2:
            work(0, count)
            return
        bounds = [count * number // threads for number in range(threads + 1)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, bounds[:-1], bounds[1:]))


def import_kernels():
    """Returns the module of compiled kernels.

    Raises:
        ImportError: If numba cannot be imported.
    """
    try:
        from dann.deployment.engines import numba_kernels
    except (ImportError, OSError) as error:  # OSError: a library that cannot be loaded
        raise ImportError(
            "Engine 'numba' needs numba: `pip install dann[deploy]`, or use engine 'numpy'. "
            f"Received: {error}"
        ) from error
    return numba_kernels
