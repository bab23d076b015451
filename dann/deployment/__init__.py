"""Packed files with 1-bit weights, C files, and exports to other formats."""

from dann.deployment.c_file import load, to_c
from dann.deployment.exports import FORMATS, export
from dann.deployment.packing import pack, summarize
from dann.deployment.tracing import PackError
