"""The constants of a C program."""

import re

import numpy as np

from dann.deployment.packed_file import pack_bits

_TYPES = {"f": "float", "i": "int32_t", "u": "uint32_t"}


def words_of(signs: np.ndarray) -> np.ndarray:
    """Packs booleans `(..., n)` into 32-bit words `(..., words)`, the first in the lowest bit."""
    words = pack_bits(signs).view("<u4")  # twice as many as 64-bit words
    return words[..., : -(-signs.shape[-1] // 32)]


class Constants:
    """Constants under names made of those of layers; what is there already is not repeated."""

    def __init__(self):
        self.lines: list[str] = []
        self.bytes = 0
        self._names: dict[tuple[str, str], str] = {}

    def add(self, layer: str, what: str, values: np.ndarray, kind: str = "") -> str:
        """Adds an array, booleans as bits, or the numbers of a struct; returns its name."""
        values = words_of(values) if values.dtype == bool else values
        literals = [_literal(value) for value in values.ravel()]
        rows = [", ".join(literals[start : start + 8]) for start in range(0, len(literals), 8)]
        text = "\n".join([*(f"    {row}," for row in rows), "};", ""])
        if (what, text) not in self._names:
            # Letters, digits and _ alone get into the C; the number tells equal names apart.
            name = re.sub(r"\W", "_", f"{what}_{layer}", flags=re.ASCII)
            name = f"{name}_{len(self._names)}" if name in self._names.values() else name
            declared = f"{kind} {name}" if kind else f"{_TYPES[values.dtype.kind]} {name}[]"
            self.lines.append(f"static const {declared} = {{\n{text}")
            self.bytes += 4 * values.size
            self._names[what, text] = name
        return self._names[what, text]


def _literal(value: np.generic) -> str:
    """Returns a number in C, exactly."""
    if value.dtype.kind == "u":
        return f"0x{value:08x}u"
    if value.dtype.kind == "i":
        return str(value)
    if not np.isfinite(value):
        return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
