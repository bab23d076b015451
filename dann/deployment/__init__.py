"""Binary networks as files of 1-bit weights, and exports to other formats."""

from dann.deployment.exports import FORMATS, ExportError, export
from dann.deployment.graph import PackError
from dann.deployment.packing import pack
from dann.deployment.runtime import PackedFileError, PackedModel, load
from dann.deployment.summary import LayerSummary, ModelSummary, summarize

__all__ = [
    "FORMATS",
    "ExportError",
    "LayerSummary",
    "ModelSummary",
    "PackError",
    "PackedFileError",
    "PackedModel",
    "export",
    "load",
    "pack",
    "summarize",
]
