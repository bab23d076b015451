"""Binary networks as files of 1-bit weights, and engines that run them.

Only `pack` and `summarize` need Keras. Without it, or with `DANN_LAZY_IMPORT=1` in the environment,
NumPy alone loads and runs a packed file.
"""

from typing import TYPE_CHECKING

from dann.deployment.packed_file import PackedFileError
from dann.deployment.packed_model import ENGINES, PackedModel, load
from dann.lazy_exports import lazy_exports

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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "model_summary": ("LayerSummary", "ModelSummary", "summarize"),
        "packing": ("PackError", "pack"),
    },
)
