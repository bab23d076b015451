"""Carries out the instructions of a program, compiled by numba."""

import numba
import numpy as np

from dann.deployment.engines import numba_bits as bits
from dann.deployment.engines import numba_floats as floats
from dann.deployment.engines.instructions import Op


def _kept_on_disk(function):
    """Compiles at the first use and keeps the result on disk, if numba finds a folder for it."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder that can be written
        return numba.njit(nogil=True)(function)


@_kept_on_disk
def run(code, first, last, n, begin, end, memory, constants):
    """Carries out the instructions `code[first:last]` on the values of some examples.

    Args:
        code: `Code.table`.
        first: First instruction.
        last: One past the last.
        n: How many examples the memory holds.
        begin: First row that products of signs compute.
        end: One past the last of them.
        memory: The values of all steps, of `float32`, `int32` and `uint64`.
        constants: `Code.constants`.
    """
    values, sums, words = memory
    numbers, integers, masks = constants
    for place in range(first, last):
        step = code[place]
        op = step.op
        if op == Op.PRODUCTS:
            bits.sign_products(step, n, begin, end, words, sums, masks)
        elif op == Op.TRIM:
            bits.trim(step, n, sums)
        elif op == Op.ADD_TABLE:
            bits.add_table(step, n, sums, integers)
        elif op == Op.GATHER:
            floats.gather(step, n, values, integers, numbers)
        elif op == Op.GATHER_WORDS:
            floats.gather(step, n, words, integers, masks)
        elif op == Op.DOT:
            floats.dot(step, n, values, numbers)
        elif op == Op.GROUPED_DOT:
            floats.grouped_dot(step, n, values, numbers)
        elif op == Op.SIGN:
            bits.sign(step, n, values, words)
        elif op == Op.THRESHOLD:
            bits.threshold(step, n, sums, words, integers, masks)
        elif op == Op.SIGNS:
            bits.signs(step, n, words, values)
        elif op == Op.REPACK:
            bits.repack(step, n, words)
        elif op == Op.MAX:
            floats.largest(step, n, values, integers, np.float32(-np.inf))
        elif op == Op.MAX_SUMS:
            floats.largest(step, n, sums, integers, np.int32(-(2**31)))
        elif op == Op.MAX_BITS:
            bits.any_of(step, n, words, integers)
        elif op == Op.MEAN:
            floats.mean(step, n, values, integers, numbers)
        elif op == Op.TO_FLOATS:
            floats.converted(step, n, sums, values)
        elif op == Op.TO_SUMS:
            floats.converted(step, n, values, sums)
        elif op == Op.ADD:
            floats.add(step, n, values)
        elif op == Op.AFFINE:
            floats.affine(step, n, values, numbers)
        elif op == Op.SOFTMAX:
            floats.softmax(step, n, values)
        else:
            floats.activation(step, n, values, numbers)
