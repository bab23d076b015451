"""Packed files with 1-bit weights, C files, and exports to other formats."""

from dann.deployment.c_file import load as load
from dann.deployment.c_file import to_c as to_c
from dann.deployment.exports import export as export
from dann.deployment.packing import pack as pack
from dann.deployment.packing import summarize as summarize
from dann.deployment.tracing import PackError as PackError
