"""Products of signs by 64-bit words, and signs as bits, compiled by numba."""

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dann.deployment.engines.instructions import LANES

_WEIGHTS = (3, 2, 0)  # powers of 2: how many words one count of bits serves, the largest first
_WORD = ir.IntType(64)
_WORDS = ir.VectorType(_WORD, LANES)
COMPARED = 16  # values at a time
_INDICES = ir.VectorType(ir.IntType(32), LANES)


@numba.njit(nogil=True)
def products(rows, tiles, size, sums, first, last):
    """Fills `sums[first:last]` with the products of rows and units.

    Args:
        rows: Bits `(n, words)` of `uint64`, contiguous.
        tiles: Bits `(units / LANES, words, LANES)`, contiguous.
        size: How many bits of a row count.
        sums: `(n, units)` of `int32`.
        first: First row to fill.
        last: One past the last.
    """
    words = rows.shape[1]
    # A few rows at a time, which stay in the cache next to the processor with a tile.
    for begin in range(first, last, 16):
        end = min(begin + 16, last)
        for tile in range(tiles.shape[0]):
            for row in range(begin, end):
                _tile_products(
                    rows,
                    row * words,
                    tiles,
                    tile * words * LANES,
                    words,
                    size,
                    sums,
                    row * sums.shape[1] + tile * LANES,
                )


def _of_tile(typing, rows, row, tiles, tile, words, size, sums, place):
    """Products of one row and `LANES` units, all given by their places in flat arrays."""
    arguments = (rows, types.intp, tiles, types.intp, types.intp, types.intp, sums, types.intp)

    def generate(context, builder, signature, values):
        def data(number):
            array = context.make_array(signature.args[number])(context, builder, values[number])
            return builder.gep(array.data, [values[number + 1]])

        units = builder.bitcast(data(2), _WORDS.as_pointer())
        different = _count_differences(builder, data(0), units, values[4])
        short = ir.VectorType(ir.IntType(32), LANES)
        sums = builder.sub(_spread(builder, values[5]), _times(builder, different, 1))
        target = data(6)
        store = builder.store(
            builder.trunc(sums, short), builder.bitcast(target, short.as_pointer())
        )
        store.align = 4
        return context.get_dummy_value()

    return types.void(*arguments), generate


_tile_products: Any = intrinsic(_of_tile)


def _of_values(typing, values, place, least, other):
    """Which of `COMPARED` values, from a place on, are at least those of another array, as bits."""

    def generate(context, builder, signature, given):
        def load(number):
            kind = signature.args[number]
            array = context.make_array(kind)(context, builder, given[number])
            start = builder.gep(array.data, [given[number + 1]])
            vector = ir.VectorType(context.get_value_type(kind.dtype), COMPARED)
            loaded = builder.load(builder.bitcast(start, vector.as_pointer()))
            loaded.align = 4
            return loaded

        floats = isinstance(signature.args[0].dtype, types.Float)
        compare = builder.fcmp_ordered if floats else builder.icmp_signed
        bits = builder.bitcast(compare(">=", load(0), load(2)), ir.IntType(COMPARED))
        return builder.zext(bits, _WORD)

    return types.uint64(values, types.intp, least, types.intp), generate


at_least: Any = intrinsic(_of_values)


def _count_differences(builder, row, units, words):
    """Counts the bits in which words of a row and of `LANES` units differ.

    A full adder takes three words and gives their sums modulo 2 and their carries, bit by bit. A
    tree of them turns a block of words into one of carries, and only their bits are counted (Harley
    and Seal); the remainder of each weight stays for the next block. Words that fill no block of
    one size go to the next.
    """

    def word(index):
        values = builder.load(builder.gep(units, [index]))
        values.align = 8
        return builder.xor(_spread(builder, builder.load(builder.gep(row, [index]))), values)

    def carries(left, index, weight):
        if weight == 0:
            return word(index)
        half = builder.add(index, _WORD(1 << (weight - 1)))
        one, other = carries(left, index, weight - 1), carries(left, half, weight - 1)
        left[weight - 1], carry = _full_adder(builder, left[weight - 1], one, other)
        return carry

    def block(weight):
        def body(index, state):
            *left, count = state
            bits = _count_bits(builder, carries(left, index, weight))
            return [*left, builder.add(count, _times(builder, bits, weight))]

        return body

    state = [_WORDS([0] * LANES)] * (max(_WEIGHTS) + 1)
    start = _WORD(0)
    for weight in _WEIGHTS:
        stop = builder.and_(words, _WORD(-(1 << weight)))
        state = _loop(builder, start, stop, 1 << weight, block(weight), state)
        start = stop
    *left, total = state
    for weight, rest in enumerate(left):
        total = builder.add(total, _times(builder, _count_bits(builder, rest), weight))
    return total


def _loop(builder, start, stop, step, body, state):
    """Repeats `body`, from an index and a state to a state, while the index is below `stop`."""
    before = builder.block
    head, inside, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(_WORD)
    index.add_incoming(start, before)
    held = [builder.phi(_WORDS) for _ in state]
    for phi, value in zip(held, state, strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", index, stop), inside, after)
    builder.position_at_end(inside)
    changed = body(index, held)
    index.add_incoming(builder.add(index, _WORD(step)), builder.block)
    for phi, value in zip(held, changed, strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return held


def _full_adder(builder, one, two, three):
    """The sum modulo 2 and the carry of three words, bit by bit."""
    half = builder.xor(one, two)
    carry = builder.or_(builder.and_(one, two), builder.and_(half, three))
    return builder.xor(half, three), carry


def _count_bits(builder, words):
    function = ir.FunctionType(_WORDS, [_WORDS])
    name = f"llvm.ctpop.v{LANES}i64"
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), [words])


def _spread(builder, word):
    """One word in all lanes."""
    empty = _WORDS(ir.Undefined)
    first = builder.insert_element(empty, word, ir.IntType(32)(0))
    return builder.shuffle_vector(first, empty, _INDICES([0] * LANES))


def _times(builder, words, power):
    """Words times 2 to a power."""
    return builder.shl(words, _WORDS([power] * LANES))
