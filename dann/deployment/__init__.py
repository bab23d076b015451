"""Binary networks as files of 1-bit weights, and engines that run them.

Only `pack` and `summarize` need Keras: where it is not installed, or with `DANN_LAZY_IMPORT=1` in
the environment, a packed file is loaded and run by NumPy alone.
"""

import importlib
from typing import TYPE_CHECKING

from dann.deployment.packed_file import PackedFileError
from dann.deployment.packed_model import ENGINES, PackedModel, load

if TYPE_CHECKING:
    from dann.deployment.packing import PackError, pack
    from dann.deployment.summary import LayerSummary, ModelSummary, summarize

__all__ = [
    "ENGINES",
    "LayerSummary",
    "ModelSummary",
    "PackError",
    "PackedFileError",
    "PackedModel",
    "load",
    "pack",
    "summarize",
]

_FROM_KERAS = {"PackError": "packing", "pack": "packing"}


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module 'dann.deployment' has no attribute {name!r}")
    module = importlib.import_module(f"dann.deployment.{_FROM_KERAS.get(name, 'summary')}")
    return getattr(module, name)
