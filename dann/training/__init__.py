"""One run from start to report, and what is done with it afterwards."""

from typing import TYPE_CHECKING

from dann.training.run_directory import RunDirectory

if TYPE_CHECKING:
    from dann.training.distribution import Distribution
    from dann.training.non_finite import StopOnNonFinite
    from dann.training.preparation import compile_model, start
    from dann.training.resumable_fit import fit
    from dann.training.run import Run

__all__ = [
    "Distribution",
    "Run",
    "RunDirectory",
    "StopOnNonFinite",
    "compile_model",
    "fit",
    "start",
]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module 'dann.training' has no attribute {name!r}")
    # These load Keras, which the files of a run do not need.
    from dann.training import distribution, non_finite, preparation, resumable_fit, run

    rooms = {
        "Distribution": distribution,
        "Run": run,
        "StopOnNonFinite": non_finite,
        "fit": resumable_fit,
    }
    return getattr(rooms.get(name, preparation), name)
