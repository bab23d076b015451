"""What a machine can do at most, and what networks ask of it at least."""

import math
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import keras
import numpy as np

_SIDE = 1536  # of the matrices that are multiplied
_COPIED = 2**26  # numbers
_TURNS = 5


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
        bytes: Bytes read and written as an array is copied.
    """

    operations: float
    bytes: float


def measured_peak() -> Peak:
    """Returns the best of a few turns of NumPy's matrix product and copy."""
    factor = np.ones((_SIDE, _SIDE), "float32")
    product = np.empty_like(factor)
    array = np.ones(_COPIED, "float32")
    copy = np.empty_like(array)
    seconds = [
        min(_cpu_seconds(call) for _ in range(_TURNS))
        for call in (
            lambda: np.matmul(factor, factor, out=product),
            lambda: np.copyto(copy, array),
        )
    ]
    return Peak(2 * _SIDE**3 / seconds[0], 2 * array.nbytes / seconds[1])


def work_of_step(parts: Iterable[tuple[keras.Model, int]]) -> Work:
    """Returns the least that a training step of float32 networks does.

    A layer multiplies its inputs with its kernel, and its outputs' gradient with the kernel and
    with the inputs; the first layer of all needs no gradient of its inputs. Outputs and their
    gradients are written and read once each; weights are read twice and written once, their
    gradients written and read.

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

    Outputs of each layer are written and read once, weights are read once.

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
    """Returns what reverse mode does for the Jacobians of so many examples.

    That is a prediction and, for each output, a product with the transposed Jacobian, which does
    as much as a prediction.
    """
    once = work_of_predictions([(network, examples)])
    passes = 1 + math.prod(network.output_shape[1:])
    return Work(passes * once.operations, passes * once.bytes)


def bound(what: str, work: Work, peak: Peak) -> str:
    """Returns in words how long a computation takes at least."""
    done = f"{_three_digits(work.operations / 1e9)} GFLOP"
    moved = f"{_three_digits(work.bytes / 1e6)} MB"
    speed = f"{_three_digits(peak.operations / 1e9)} GFLOP"
    flow = f"{_three_digits(peak.bytes / 1e9)} GB"
    computing = f"{_three_digits(1000 * work.operations / peak.operations)} ms"
    moving = f"{_three_digits(1000 * work.bytes / peak.bytes)} ms"
    return (
        f"{what} is {done} and moves {moved}. At this machine's {speed} and {flow} in a second of "
        f"CPU time that is {computing} and {moving}"
    )


def _three_digits(number):
    return f"{float(f'{number:.3g}'):,g}"


class _Layer(NamedTuple):
    """Numbers of outputs and of products with a weight of an example, and of weights."""

    outputs: int
    products: int
    weights: int


def _layers(network: keras.Model) -> Iterator[_Layer]:
    for layer in network.layers:
        outputs = math.prod(layer.output.shape[1:])
        kernel = getattr(layer, "kernel", None)
        factors = 0 if kernel is None else math.prod(kernel.shape[:-1])
        weights = sum(math.prod(weight.shape) for weight in layer.trainable_weights)
        yield _Layer(outputs, outputs * factors, weights)


def _cpu_seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start
