"""Binary networks as files of 1-bit weights, and exports to other formats."""

from dann.deployment.c_file import load, to_c
from dann.deployment.exports import FORMATS, ExportError, export
from dann.deployment.packing import pack
from dann.deployment.runtime import PackedFileError, PackedModel
from dann.deployment.summary import summarize
from dann.deployment.tracing import PackError

__all__ = [
    "FORMATS",
    "ExportError",
    "PackError",
    "PackedFileError",
    "PackedModel",
    "export",
    "load",
    "pack",
    "summarize",
    "to_c",
]
