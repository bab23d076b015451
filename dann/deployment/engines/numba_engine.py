"""Runs programs with NumPy and, what is binary, with kernels that numba compiles."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dann.deployment.engines.numpy_engine import NumpyEngine, Run

try:
    from dann.deployment.engines.numba_kernels import LANES, products
except (ImportError, OSError) as error:  # OSError: a library that cannot be loaded
    raise ImportError(
        "Engine 'numba' needs numba, which `pip install dann[deploy]` installs; engine 'numpy' "
        f"needs nothing more. Received: {error}"
    ) from error

_WORTH_A_THREAD = 2**20  # words; about half a millisecond


class NumbaEngine(NumpyEngine):
    """Computes the products of signs with 64-bit exclusive or and counts of bits.

    The kernels are compiled at the first use and kept on disk, where numba finds a folder that it
    may write. Rows are shared among threads where
    each of them has some half millisecond to do, so never for a dense layer and one example.

    Args:
        program: What to compute.
        threads: Greatest number of threads. Defaults to `1`.
    """

    def products(self, kernel: np.ndarray, size: int) -> Run:
        units, words = kernel.shape
        tiles = np.zeros((-(-units // LANES), LANES, words), "uint64")
        tiles.reshape(-1, words)[:units] = kernel
        tiles = np.ascontiguousarray(tiles.transpose(0, 2, 1))

        def run(rows):
            rows = np.ascontiguousarray(rows)
            sums = np.empty((len(rows), len(tiles) * LANES), "int32")
            self._share(
                lambda first, last: products(rows, tiles, size, sums, first, last), rows, units
            )
            return sums[:, :units]

        return run

    def _share(self, work, rows, units):
        """Calls `work` with ranges of rows, in as many threads as pay."""
        count = len(rows)
        threads = min(self.threads, count, rows.size * units // _WORTH_A_THREAD)
        if threads < 2:
            work(0, count)
            return
        bounds = [count * number // threads for number in range(threads + 1)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, bounds[:-1], bounds[1:]))
