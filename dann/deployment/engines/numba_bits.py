"""Steps on bits and on sums of signs, compiled by numba; each takes an instruction."""

import numba
import numpy as np

from dann.deployment.engines.instructions import LANES
from dann.deployment.engines.numba_vectors import COMPARED, at_least, products

_ZEROS = np.zeros(64, "float32")


@numba.njit(nogil=True)
def part(values, place, n, size):
    """What the memory holds from a place on, `size` values of each of `n` examples."""
    return values[n * place : n * (place + size)]


@numba.njit(nogil=True)
def sign_products(step, n, begin, end, words, sums, masks):
    """Multiplies rows of signs by the signs of a kernel, rows `begin` to `end`."""
    rows, size, units = n * step.rows, step.size, step.units
    bits = part(words, step.source, n, step.rows * size).reshape(rows, size)
    tiles = part(masks, step.first, 1, units * size).reshape(units // LANES, size, LANES)
    places = part(sums, step.target, n, step.rows * units).reshape(rows, units)
    products(bits, tiles, step.second, places, begin, min(end, rows))


@numba.njit(nogil=True)
def trim(step, n, sums):
    """Copies the first `units` of each row of `size` sums."""
    rows, size, units = step.rows, step.size, step.units
    wide = part(sums, step.source, n, rows * size)
    outputs = part(sums, step.target, n, rows * units)
    for row in range(n * rows):
        for unit in range(units):
            outputs[row * units + unit] = wide[row * size + unit]


@numba.njit(nogil=True)
def add_table(step, n, sums, integers):
    """Adds the same sums to every example, in place."""
    size = step.rows * step.size
    table = part(integers, step.first, 1, size)
    for example in range(n):
        values = sums[n * step.target + example * size : n * step.target + (example + 1) * size]
        values += table


@numba.njit(nogil=True)
def _word(values, place, least, other, count):
    """Bits that say which of at most 64 values are at least those of another array."""
    word, whole = np.uint64(0), count // COMPARED * COMPARED
    for bit in range(0, whole, COMPARED):
        word |= at_least(values, place + bit, least, other + bit) << np.uint64(bit)
    for bit in range(whole, count):
        word |= np.uint64(values[place + bit] >= least[other + bit]) << np.uint64(bit)
    return word


@numba.njit(nogil=True)
def sign(step, n, floats, words):
    """Packs floats into bits: 1 where they are at least 0."""
    size, in_words = step.size, (step.size + 63) // 64
    values = part(floats, step.source, n, step.rows * size)
    outputs = part(words, step.target, n, step.rows * in_words)
    for row in range(n * step.rows):
        for number in range(in_words):
            start = 64 * number
            word = _word(values, row * size + start, _ZEROS, 0, min(64, size - start))
            outputs[row * in_words + number] = word


@numba.njit(nogil=True)
def threshold(step, n, sums, words, integers, masks):
    """Packs sums into bits: 1 where they reach their unit's threshold, flipped by `second`."""
    size, in_words = step.size, (step.size + 63) // 64
    values = part(sums, step.source, n, step.rows * size)
    outputs = part(words, step.target, n, step.rows * in_words)
    thresholds = part(integers, step.first, 1, size)
    flips = part(masks, step.second, 1, in_words)
    for row in range(n * step.rows):
        for number in range(in_words):
            start = 64 * number
            word = _word(values, row * size + start, thresholds, start, min(64, size - start))
            outputs[row * in_words + number] = word ^ flips[number]


@numba.njit(nogil=True)
def signs(step, n, words, floats):
    """Unpacks bits into floats, +1 or -1."""
    size, units = step.size, step.units
    values = part(words, step.source, n, step.rows * size)
    outputs = part(floats, step.target, n, step.rows * units)
    for row in range(n * step.rows):
        for unit in range(units):
            bit = values[row * size + unit // 64] >> np.uint64(unit % 64) & np.uint64(1)
            outputs[row * units + unit] = np.float32(1) if bit else np.float32(-1)


@numba.njit(nogil=True)
def repack(step, n, words):
    """Copies bits from rows of `size` into rows of `units`."""
    size, units, count = step.size, step.units, n * step.rows * step.units
    in_words, out_words = (size + 63) // 64, (units + 63) // 64
    values = words[n * step.source :]
    outputs = part(words, step.target, n, step.rows * out_words)
    outputs[:] = 0
    done = 0
    while done < count:  # as many bits at a time as lie in one word of both
        bit, place = done % size, done % units
        take = min(64 - bit % 64, size - bit, 64 - place % 64, units - place)
        bits = values[done // size * in_words + bit // 64] >> np.uint64(bit % 64)
        if take < 64:
            bits &= (np.uint64(1) << np.uint64(take)) - np.uint64(1)
        outputs[done // units * out_words + place // 64] |= bits << np.uint64(place % 64)
        done += take


@numba.njit(nogil=True)
def any_of(step, n, words, integers):
    """Takes the maximum of each window of bits, which is their OR."""
    size, rows, taps, pixels = step.size, step.rows, step.taps, step.pixels
    table = part(integers, step.first, 1, rows * taps)
    images = part(words, step.source, n, pixels * size)
    outputs = part(words, step.target, n, rows * size)
    outputs[:] = 0
    for row in range(n * rows):
        image = images[row // rows * pixels * size : (row // rows + 1) * pixels * size]
        for tap in range(taps):
            pixel = table[row % rows * taps + tap]
            if pixel >= 0:
                for word in range(size):
                    outputs[row * size + word] |= image[pixel * size + word]
