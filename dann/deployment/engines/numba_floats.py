"""Steps on floats, and on windows of any values, compiled by numba; each takes an instruction."""

import math

import numba
import numpy as np

from dann.deployment.engines.instructions import Op
from dann.deployment.engines.numba_bits import part


@numba.njit(nogil=True)
def gather(step, n, values, integers, borders):
    """Lays the pixels of each window side by side, with `borders` in the padding."""
    size, taps, pixels = step.size, step.rows * step.taps, step.pixels
    table = part(integers, step.first, 1, taps)
    border = part(borders, step.second, 1, size)
    images = part(values, step.source, n, pixels * size)
    outputs = part(values, step.target, n, taps * size)
    for example in range(n):
        image = images[example * pixels * size : (example + 1) * pixels * size]
        output = outputs[example * taps * size : (example + 1) * taps * size]
        if size == 1:  # several times as fast as the loop
            for place in range(taps):
                pixel = table[place]
                output[place] = image[pixel] if pixel >= 0 else border[0]
        else:
            for place in range(taps):
                pixel = table[place]
                for channel in range(size):
                    value = image[pixel * size + channel] if pixel >= 0 else border[channel]
                    output[place * size + channel] = value


@numba.njit(nogil=True)
def dot(step, n, floats, numbers):
    """Multiplies rows by a matrix and adds a bias, if there is one."""
    rows, size, units = n * step.rows, step.size, step.units
    values = part(floats, step.source, n, step.rows * size).reshape(rows, size)
    kernel = part(numbers, step.first, 1, size * units).reshape(size, units)
    outputs = part(floats, step.target, n, step.rows * units).reshape(rows, units)
    np.dot(values, kernel, outputs)
    _add_bias(step, n, floats, numbers)


@numba.njit(nogil=True)
def _add_bias(step, n, floats, numbers):
    if step.second >= 0:
        units = step.units
        bias = part(numbers, step.second, 1, units)
        outputs = part(floats, step.target, n, step.rows * units)
        for row in range(n * step.rows):
            for unit in range(units):
                outputs[row * units + unit] += bias[unit]


@numba.njit(nogil=True)
def grouped_dot(step, n, floats, numbers):
    """Multiplies windows by the kernel of a convolution in groups, and adds a bias."""
    rows, taps, size, units = step.rows, step.taps, step.size, step.units
    fan_in, fan_out = size // step.groups, units // step.groups
    values = part(floats, step.source, n, rows * taps * size)
    kernel = part(numbers, step.first, 1, taps * fan_in * units)
    outputs = part(floats, step.target, n, rows * units)
    outputs[:] = np.float32(0)
    for row in range(n * rows):
        for tap in range(taps):
            for channel in range(size):
                value = values[(row * taps + tap) * size + channel]
                weights = (tap * fan_in + channel % fan_in) * units
                first = channel // fan_in * fan_out
                for unit in range(first, first + fan_out):
                    outputs[row * units + unit] += value * kernel[weights + unit]
    _add_bias(step, n, floats, numbers)


@numba.njit(nogil=True)
def largest(step, n, values, integers, lowest):
    """Takes the maximum of each window; padding does not count."""
    size, rows, taps, pixels = step.size, step.rows, step.taps, step.pixels
    table = part(integers, step.first, 1, rows * taps)
    images = part(values, step.source, n, pixels * size)
    outputs = part(values, step.target, n, rows * size)
    outputs[:] = lowest
    for row in range(n * rows):
        image = images[row // rows * pixels * size : (row // rows + 1) * pixels * size]
        output = outputs[row * size : (row + 1) * size]
        for tap in range(taps):
            pixel = table[row % rows * taps + tap]
            if pixel >= 0:
                for channel in range(size):
                    best, value = output[channel], image[pixel * size + channel]
                    stays = best >= value or best != best  # NaN stays and wins
                    output[channel] = best if stays else value


@numba.njit(nogil=True)
def mean(step, n, floats, integers, numbers):
    """Takes the mean of each window; padding does not count."""
    size, rows, taps, pixels = step.size, step.rows, step.taps, step.pixels
    table = part(integers, step.first, 1, rows * taps)
    counts = part(numbers, step.second, 1, rows)
    images = part(floats, step.source, n, pixels * size)
    outputs = part(floats, step.target, n, rows * size)
    outputs[:] = np.float32(0)
    for row in range(n * rows):
        output = outputs[row * size : (row + 1) * size]
        image = images[row // rows * pixels * size : (row // rows + 1) * pixels * size]
        for tap in range(taps):
            pixel = table[row % rows * taps + tap]
            if pixel >= 0:
                output += image[pixel * size : (pixel + 1) * size]
        output /= counts[row % rows]


@numba.njit(nogil=True)
def converted(step, n, given, outputs):
    """Copies values into the memory of another type."""
    size = step.rows * step.size
    values = part(given, step.source, n, size)
    part(outputs, step.target, n, size)[:] = values


@numba.njit(nogil=True)
def add(step, n, floats):
    """Adds two arrays of floats."""
    size = step.rows * step.size
    one, other = part(floats, step.source, n, size), part(floats, step.first, n, size)
    outputs = part(floats, step.target, n, size)
    for place in range(len(outputs)):
        outputs[place] = one[place] + other[place]


@numba.njit(nogil=True)
def affine(step, n, floats, numbers):
    """Scales each channel, then adds an offset; either may be missing."""
    size = step.size
    values = part(floats, step.source, n, step.rows * size)
    outputs = part(floats, step.target, n, step.rows * size)
    if step.first >= 0:
        scale = part(numbers, step.first, 1, size)
        for row in range(n * step.rows):
            for channel in range(size):
                outputs[row * size + channel] = values[row * size + channel] * scale[channel]
        values = outputs
    if step.second >= 0:
        offset = part(numbers, step.second, 1, size)
        for row in range(n * step.rows):
            for channel in range(size):
                outputs[row * size + channel] = values[row * size + channel] + offset[channel]


@numba.njit(nogil=True)
def activation(step, n, floats, numbers):
    """Applies ReLU, PReLU, tanh or the sigmoid."""
    op, one = step.op, np.float32(1)
    values = part(floats, step.source, n, step.rows * step.size)
    outputs = part(floats, step.target, n, step.rows * step.size)
    for place in range(len(outputs)):
        value = values[place]
        if op == Op.RELU:
            outputs[place] = np.float32(0) if value < 0 else value
        elif op == Op.PRELU:
            slope = numbers[step.first + place % step.size]
            outputs[place] = value if value > 0 else value * slope
        elif op == Op.TANH:
            outputs[place] = math.tanh(value)
        else:
            shrunk = math.exp(-abs(value))
            outputs[place] = (one if value >= 0 else shrunk) / (one + shrunk)


@numba.njit(nogil=True)
def softmax(step, n, floats):
    """Applies the softmax to each row."""
    size = step.size
    values = part(floats, step.source, n, step.rows * size)
    outputs = part(floats, step.target, n, step.rows * size)
    for row in range(n * step.rows):
        powers = outputs[row * size : (row + 1) * size]
        largest = values[row * size : (row + 1) * size].max()
        total = np.float32(0)
        for unit in range(size):
            powers[unit] = math.exp(values[row * size + unit] - largest)
            total += powers[unit]
        powers /= total
