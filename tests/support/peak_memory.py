"""The most memory that something takes."""

import contextlib
import pathlib
import tracemalloc
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Gives a function that returns the peak so far above the start, in MB.

    It is the larger of what Python and NumPy asked for, even if it was never touched, and of what
    the process held in memory, libraries in C included.
    """
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    start = _resident("VmRSS")
    tracemalloc.start()

    def peak():
        return max(tracemalloc.get_traced_memory()[1] / 1e6, _resident("VmHWM") - start)

    try:
        yield peak
    finally:
        tracemalloc.stop()


def _resident(key):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
    return int(value) / 1e3
