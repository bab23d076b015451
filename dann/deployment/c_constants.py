"""The constants of a generated C program."""

import textwrap
from collections.abc import Sequence

import numpy as np

from dann.deployment.packing import pack_bits

_LITERALS = {"f": "{!s}f", "u": "0x{:08x}u", "i": "{}"}  # exact literals, by NumPy's kind of dtype


class CConstants:
    """Declarations of constants, without duplicates.

    Attributes:
        lines: Lines of C that declare the constants.
        num_bytes: Size of all constants in bytes.
    """

    def __init__(self):
        self.lines: list[str] = []
        self.num_bytes = 0
        self._names: dict[tuple[str, ...], str] = {}  # by content

    def add(self, name: str, values: np.ndarray) -> str:
        """Declares an array, booleans as bits, unless an equal array exists.

        Args:
            name: Name of the array in C.
            values: Numbers or booleans `(..., n)`.

        Returns:
            The name of the array, or of the equal array.
        """
        values = pack_words(values) if values.dtype == bool else values
        texts = [_LITERALS[values.dtype.kind].format(value) for value in values.ravel()]
        if (content := tuple(texts)) not in self._names:
            self._names[content] = name
            kind = "uint32_t" if values.dtype.kind == "u" else "float"
            self.declare(f"{kind} {name}[] DANN_ALIGNED", texts, values.size)
        return self._names[content]

    def declare(self, declaration: str, texts: Sequence[str], size: int) -> None:
        """Declares a constant of `size` numbers of 32 bits, with its elements as C code."""
        self.lines += [f"static const {declaration} = {{", format_rows(texts), "};"]
        self.num_bytes += 4 * size


def format_rows(texts: Sequence[str]) -> str:
    """Returns texts separated by commas, six per line."""
    rows = [", ".join(texts[start : start + 6]) for start in range(0, len(texts), 6)]
    return textwrap.indent(",\n".join(rows), "    ")


def format_pair(values: Sequence[int], default: int = 1) -> str:
    """Returns the numbers of two axes in C; an input with one axis is one row of pixels."""
    first, second = [default, default, *values][-2:]
    return f"{{{first:d}, {second:d}}}"  # `:d` rejects text from an untrusted file


def pack_words(signs: np.ndarray) -> np.ndarray:
    """Packs booleans `(..., n)` into 32-bit words `(..., words)`, the first in the lowest bit."""
    return pack_bits(signs).view("<u4")[..., : -(-signs.shape[-1] // 32)]
