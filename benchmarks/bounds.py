"""What a machine can do at most, and what networks ask of it at least."""

import functools
import math
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

_SIDE = 1536  # of the matrices that are multiplied
_COPIED = 2**26  # numbers
_TURNS, _CALLS = 4, 5  # in each turn, so that waking threads hardly counts


class Work(NamedTuple):
    """What a computation does.

    Attributes:
        operations: Floating-point operations.
        bytes: Bytes that are read from memory or written to it.
    """

    operations: float
    bytes: float


class Peak(NamedTuple):
    """What the machine does in a second of CPU time, measured.

    Attributes:
        operations: Floating-point operations of a product of float32 matrices.
        bytes: Bytes read and written as an array is copied, or read for a sum of squares.
    """

    operations: float
    bytes: float


@functools.cache
def measured_peak() -> Peak:
    """Returns the best of a few turns of NumPy and TensorFlow.

    Which of them multiplies faster depends on the processor: each has kernels of its own.
    """
    factor = np.ones((_SIDE, _SIDE), "float32")
    product, tensor = np.empty_like(factor), tf.constant(factor)
    array = np.ones(_COPIED, "float32")
    copy = np.empty_like(array)
    multiplying = min(
        _cpu_seconds(lambda: np.matmul(factor, factor, out=product)),
        _cpu_seconds(lambda: tf.matmul(tensor, tensor)),
    )
    copying = _cpu_seconds(lambda: np.copyto(copy, array))
    reading = _cpu_seconds(lambda: np.dot(array, array))
    moved = max(2 * array.nbytes / copying, array.nbytes / reading)
    return Peak(2 * _SIDE**3 / multiplying, moved)


def work_of_step(parts: Iterable[tuple[keras.Model, int]]) -> Work:
    """Returns the least that a training step of float32 networks does.

    A layer multiplies its inputs with its kernel, and its outputs' gradient with the kernel and
    with the inputs; the first layer of all needs no gradient of its inputs. Outputs of a layer with
    a kernel and their gradients are written and read once each; any other layer can share a pass
    with its neighbours. Weights are read twice and written once, their gradients written and read.

    Args:
        parts: Networks in the order of the computation, each with its number of examples.
    """
    operations = moved = 0.0
    first = True
    for network, examples in parts:
        for layer in _layers(network):
            moved += 4 * 4 * examples * layer.outputs + 5 * 4 * layer.weights
            operations += 2 * examples * layer.products * (2 if first else 3)
            first = first and not layer.products
    return Work(operations, moved)


def work_of_predictions(parts: Iterable[tuple[keras.Model, int]]) -> Work:
    """Returns the least that float32 networks do for their outputs.

    Outputs of a layer with a kernel are written and read once, weights are read once.

    Args:
        parts: Networks, each with its number of examples.
    """
    operations = moved = 0.0
    for network, examples in parts:
        for layer in _layers(network):
            moved += 4 * (2 * examples * layer.outputs + layer.weights)
            operations += 2 * examples * layer.products
    return Work(operations, moved)


def work_of_jacobian(network: keras.Model, examples: int) -> Work:
    """Returns the least that reverse mode does for the Jacobians of so many examples.

    After a prediction, the gradient of each output, with no zero left out, goes back through all
    layers but the last one with a kernel, which gives it its first values. All outputs go back
    together, so weights are read once more. Gradients of the outputs of a layer are written and
    read once, the Jacobians are written.
    """
    forward = work_of_predictions([(network, examples)])
    with_kernels = [layer for layer in _layers(network) if layer.products]
    others = with_kernels[:-1]
    gradients = examples * math.prod(network.output_shape[1:])
    back = gradients * sum(layer.products for layer in others)
    moved = gradients * (
        2 * sum(one.outputs for one in others) + math.prod(network.input_shape[1:])
    )
    weights = sum(layer.weights for layer in with_kernels)
    return Work(forward.operations + 2 * back, forward.bytes + 4 * (moved + weights))


def bound(what: str, work: Work, peak: Peak) -> str:
    """Returns in words how long a computation takes at a measured peak.

    Its traffic takes less where caches keep what is read again.
    """
    done = f"{_three_digits(work.operations / 1e9)} GFLOP"
    moved = f"{_three_digits(work.bytes / 1e6)} MB"
    speed = f"{_three_digits(peak.operations / 1e9)} GFLOP"
    flow = f"{_three_digits(peak.bytes / 1e9)} GB"
    computing = f"{_three_digits(1000 * work.operations / peak.operations)} ms"
    moving = f"{_three_digits(1000 * work.bytes / peak.bytes)} ms"
    return (
        f"{what} is {done} and moves {moved} past the caches. At {speed} and {flow} in a second of "
        f"CPU time, this machine's best product and copy, that is {computing} and {moving}"
    )


def _three_digits(number):
    return f"{float(f'{number:.3g}'):,g}"


class _Layer(NamedTuple):
    """Numbers of outputs and of products with a weight of an example, and of weights.

    Outputs count only where a kernel makes them.
    """

    outputs: int
    products: int
    weights: int


def _layers(network: keras.Model) -> Iterator[_Layer]:
    for layer in network.layers:
        kernel = getattr(layer, "kernel", None)
        outputs = 0 if kernel is None else math.prod(layer.output.shape[1:])
        factors = 0 if kernel is None else math.prod(kernel.shape[:-1])
        weights = sum(math.prod(weight.shape) for weight in layer.trainable_weights)
        yield _Layer(outputs, outputs * factors, weights)


def _cpu_seconds(call):
    """The least CPU time of a call in a few turns."""
    seconds = []
    for _ in range(_TURNS):
        start = time.process_time()
        for _ in range(_CALLS):
            call()
        seconds.append((time.process_time() - start) / _CALLS)
    return min(seconds)
