"""What a machine can do at most, and what a training step asks of it at least."""

import math
import time
from collections.abc import Iterable
from typing import NamedTuple

import keras
import numpy as np

_SIDE = 1536  # of the matrices that are multiplied
_COPIED = 2**26  # numbers
_TURNS = 5


class Work(NamedTuple):
    """What a step does.

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
        for layer in network.layers:
            outputs = examples * math.prod(layer.output.shape[1:])
            moved += 4 * 4 * outputs
            weights = sum(math.prod(weight.shape) for weight in layer.trainable_weights)
            moved += 5 * 4 * weights
            kernel = getattr(layer, "kernel", None)
            if kernel is not None:
                products = outputs * math.prod(kernel.shape) / kernel.shape[-1]
                operations += 2 * products * (2 if first else 3)
                first = False
    return Work(operations, moved)


def bound(work: Work, peak: Peak) -> str:
    """Returns in words how long a step takes at least."""
    computing, moving = work.operations / peak.operations, work.bytes / peak.bytes
    return (
        f"A step is {work.operations / 1e9:.3g} GFLOP and moves {work.bytes / 1e6:.3g} MB. At this "
        f"machine's {peak.operations / 1e9:.3g} GFLOP and {peak.bytes / 1e9:.3g} GB in a second of "
        f"CPU time that is {1e3 * computing:.3g} ms and {1e3 * moving:.3g} ms"
    )


def _cpu_seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start
