"""The instructions that one compiled function carries out; `translation` writes them."""

import enum
from typing import NamedTuple

LANES = 8  # units side by side: two AVX2 registers, one of AVX-512


class Op(enum.IntEnum):
    """What an instruction does to the rows of its source."""

    TO_FLOATS = enum.auto()
    TO_SUMS = enum.auto()
    AFFINE = enum.auto()  # times `first`, plus `second`; either may be missing
    PRELU = enum.auto()  # slopes `first`
    RELU = enum.auto()
    SIGMOID = enum.auto()
    TANH = enum.auto()
    SOFTMAX = enum.auto()
    ADD = enum.auto()  # plus the values from `first` on, a place in the memory
    GATHER = enum.auto()  # `taps` pixels of the table `first` side by side; -1 stands for `second`
    GATHER_WORDS = enum.auto()
    DOT = enum.auto()  # times the matrix `first`, plus `second` if there is one
    GROUPED_DOT = enum.auto()  # the same for a convolution of `groups`
    PRODUCTS = enum.auto()  # of signs, with the tiles `first`; `second` bits count
    TRIM = enum.auto()  # the first `units` of `size` sums
    ADD_TABLE = enum.auto()  # plus those of the table `first`, in their place
    SIGN = enum.auto()
    THRESHOLD = enum.auto()  # at least `first`, flipped by `second`
    SIGNS = enum.auto()
    REPACK = enum.auto()  # bits of rows of `size` into rows of `units`
    MAX = enum.auto()  # of `taps` pixels of the table `first`; -1 does not count
    MAX_SUMS = enum.auto()
    MAX_BITS = enum.auto()
    MEAN = enum.auto()  # of `taps` pixels, of which `second` are not padding


class Instruction(NamedTuple):
    """One instruction; every size is that of one example.

    Args:
        op: What to do, an `Op`.
        source: Where the values start that it takes, in the memory of their type.
        target: Where those start that it gives.
        rows: How many rows it gives.
        size: Values of a row, or of a pixel where it takes windows.
        units: Values of a row that it gives, if there are others.
        taps: Pixels of a window.
        pixels: Pixels of an image.
        groups: Groups of channels.
        first: Where an array of the program starts, in the constants of its type, or -1.
        second: The same of another.
    """

    op: Op
    source: int
    target: int
    rows: int = 1
    size: int = 1
    units: int = 1
    taps: int = 1
    pixels: int = 1
    groups: int = 1
    first: int = -1
    second: int = -1
