"""Binary networks as files of 1-bit weights, and engines that run them.

Only `pack` and `summarize` need Keras. Without it, or with `DANN_LAZY_IMPORT=1` in the environment,
NumPy alone loads and runs a packed file.
"""

import importlib
from typing import TYPE_CHECKING

from dann.deployment.packed_file import PackedFileError
from dann.deployment.packed_model import ENGINES, PackedModel, load

if TYPE_CHECKING:
    from dann.deployment.model_summary import LayerSummary, ModelSummary, summarize
    from dann.deployment.packing import PackError, pack

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
    module = importlib.import_module(f"dann.deployment.{_FROM_KERAS.get(name, 'model_summary')}")
    return getattr(module, name)
