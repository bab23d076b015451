"""The constants of a C program."""

import re
from collections.abc import Sequence

import numpy as np

from dann.deployment.packed_file import pack_bits

_TYPES = {"f": "float", "i": "int32_t", "u": "uint32_t"}


def words_of(signs: np.ndarray) -> np.ndarray:
    """Packs booleans `(..., n)` into 32-bit words `(..., words)`, the first in the lowest bit."""
    words = pack_bits(signs).view("<u4")  # twice as many as 64-bit words
    return words[..., : -(-signs.shape[-1] // 32)]


class Arrays:
    """Constants under names made of those of layers; what is there already is not repeated."""

    def __init__(self):
        self.lines: list[str] = []
        self.bytes = 0
        self._names: dict[tuple, str] = {}

    def add(self, layer: str, what: str, values: np.ndarray) -> str:
        """Adds an array and returns its name."""
        literals = [literal(value) for value in values.ravel()]
        rows = [", ".join(literals[start : start + 8]) for start in range(0, len(literals), 8)]
        kind = _TYPES[values.dtype.kind]
        content = [f"[{values.size}] = {{", *(f"    {row}," for row in rows), "};", ""]
        return self._define(layer, what, kind, content, 4 * values.size)

    def window(self, layer: str, numbers: Sequence[int]) -> str:
        """Adds a `window_t` and returns its name."""
        content = [f" = {{{', '.join(map(str, numbers))}}};", ""]
        return self._define(layer, "window", "window_t", content, 4 * len(numbers))

    def _define(self, layer, what, kind, content, size):
        key = (layer, what, *content)
        if key not in self._names:
            name = re.sub(r"\W", "_", f"{layer}_{what}", flags=re.ASCII)
            name = name if name[0].isalpha() else f"layer{name}"
            while name in self._names.values():
                name += "_"
            self.lines += [f"static const {kind} {name}{content[0]}", *content[1:]]
            self.bytes += size
            self._names[key] = name
        return self._names[key]


def literal(value: np.generic) -> str:
    """Returns a number in C, exactly."""
    if value.dtype.kind == "u":
        return f"0x{value:08x}u"
    if value.dtype.kind == "i":
        return str(value)
    if not np.isfinite(value):
        return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
