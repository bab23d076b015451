"""The C functions that generated programs call."""

import pathlib
from collections.abc import Iterable

# One file per function. The numbers are the order in C, in which callees come before their callers.
_FILES = sorted(pathlib.Path(__file__).parent.glob("c_functions/*.c"))
_CALLEES = {  # the functions that a function calls, directly and through others
    "next_pixel": ("find_pixel",),
    "multiply_bits": ("count_bits", "find_pixel"),
    "multiply_bits_in_groups": ("find_pixel",),
    "find_numbers": ("find_pixel",),
    "multiply_numbers": ("find_numbers", "find_pixel"),
    "multiply_signs": ("find_numbers", "find_pixel"),
}


def collect_functions(names: Iterable[str]) -> str:
    """Returns the C source of functions and of all functions that they call."""
    required = {*names, *(callee for name in names for callee in _CALLEES.get(name, ()))}
    files = [file for file in _FILES if file.stem.partition("_")[2] in required]
    return "".join(f"{file.read_text()}\n" for file in files)
