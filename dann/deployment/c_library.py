"""The C functions that generated programs call, one per file in `c_functions`."""

import pathlib
from collections.abc import Iterable

_FOLDER = pathlib.Path(__file__).parent / "c_functions"
# The functions that each function calls. Callees come before their callers, here and in C.
_CALLEES: dict[str, tuple[str, ...]] = {
    "count_bits": (),
    "find_pixel": (),
    "next_pixel": ("find_pixel",),
    "multiply_bits": ("count_bits", "find_pixel"),
    "multiply_bits_in_groups": ("find_pixel",),
    "find_numbers": ("find_pixel",),
    "multiply_numbers": ("find_numbers",),
    "multiply_signs": ("find_numbers",),
    "max_pool_numbers": (),
    "max_pool_bits": (),
    "average_pool_numbers": (),
    "divide": (),
    "compare": (),
    "take_signs": (),
    "copy": (),
    "to_signs": (),
    "add": (),
    "add_one": (),
    "multiply": (),
    "multiply_one": (),
    "prelu": (),
    "apply_relu": (),
    "apply_relu6": (),
    "apply_hard_tanh": (),
    "apply_sigmoid": (),
    "apply_tanh": (),
    "apply_softmax": (),
    "repack_bits": (),
}


def collect_functions(names: Iterable[str]) -> str:
    """Returns the C source of functions and of all functions that they call."""
    required = set(names)
    for name in reversed(_CALLEES):
        if name in required:
            required.update(_CALLEES[name])
    sources = [(_FOLDER / f"{name}.c").read_text() for name in _CALLEES if name in required]
    return "".join(f"{source}\n" for source in sources)
