"""Checks that the devices of this machine train as they should."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from dann.adaptation import DANN
from dann.autodiff import vjp
from dann.data import pair
from dann.gradients import reverse_gradient
from dann.training.devices import Distribution, describe_hardware, list_accelerators
from dann.training.preparation import start

_STRENGTH, _BATCH, _SHAPE, _FEATURES = 0.7, 24, (16, 16, 3), 32
# How far an update may be from the CPU's in float32: the norm of the difference over its norm. A
# CPU is off by .0068 at most in bfloat16, by .0007 in float16 (4 seeds, JAX); half the strength by
# .37. Accelerators may multiply float32 in TF32, which has the digits of float16.
_TOLERANCES = {"float32": 4e-3, "mixed_bfloat16": 3e-2, "mixed_float16": 4e-3}


class DeviceError(RuntimeError):
    """A device does not do what it should."""


def check_device(distribution: Distribution | None = None) -> Iterator[str]:
    """Checks the devices of the running Keras backend; gives a line after each check.

    The gradient of the reversal is compared with its formula, a compiled step of DANN on the device
    in each precision with an eager one of the CPU in float32, and a step on several devices with
    one device's.

    Args:
        distribution: The devices to compare with one. Defaults to `None`: all accelerators, if
            there are several and the backend is TensorFlow or JAX.

    Raises:
        DeviceError: At the first check that fails.
    """
    yield f"devices: {describe_hardware()}; {keras.backend.backend()}, Keras {keras.__version__}"
    for way in ("override", "stop_gradient"):
        yield f"reversal, {way}: {_compared('the reversal', *_reversal(way), 1e-6)}"
    with keras.device("cpu"):
        begin, reference = _update("float32", run_eagerly=True)
    for precision, tolerance in _TOLERANCES.items():
        found = _update(precision, begin)[1]
        yield f"step in {precision}: {_compared('a step', found, reference, tolerance)}"
    if distribution is None and len(list_accelerators()) > 1 and keras.backend.backend() != "torch":
        distribution = Distribution("data_parallel")
    if distribution is not None:
        one = _update("float32", begin)[1]
        several = _update("float32", begin, distribution)[1]
        yield f"step on several devices: {_compared('it', several, one, _TOLERANCES['float32'])}"
    start(0)


def _compared(name, found, expected, tolerance):
    """Says how far a vector is from another; raises `DeviceError` if that is too far."""
    error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    if not error < tolerance:
        raise DeviceError(f"Expected {name} within {tolerance:g}. Received: {error:.2g} off")
    return f"{error:.1e} off, at most {tolerance:g}"


def _reversal(way):
    """The gradient of the reversal, and `-strength` times the upstream gradient."""
    x, upstream = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")
    _, products = vjp(lambda x: reverse_gradient(x, _STRENGTH, implementation=way), [x], [upstream])
    return keras.ops.convert_to_numpy(products[0]), -_STRENGTH * upstream


def _update(precision, begin=None, distribution=None, run_eagerly=False):
    """The weights before a step of gradient descent, and what the step adds to them."""
    start(0, precision, distribution)
    with (distribution or Distribution()).scope():
        model = _model()
        optimizer: Any = keras.optimizers.SGD(0.1)
        if precision == "mixed_float16":  # a scale at which no gradient here overflows
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024.0)
        model.compile(optimizer, run_eagerly=run_eagerly)
    if begin is not None:  # devices draw different numbers from one seed
        for weight, value in zip(model.trainable_variables, begin, strict=True):
            weight.assign(value)
    begin = [np.array(keras.ops.convert_to_numpy(weight)) for weight in model.trainable_variables]
    model.fit(_pairs(), epochs=1, steps_per_epoch=1, verbose=0)
    after = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_variables]
    moved = [np.ravel(a - b).astype("float64") for a, b in zip(after, begin, strict=True)]
    return begin, np.concatenate(moved)


def _model():
    # Smooth everywhere: at a kink, rounding may choose another slope.
    convolution = keras.layers.Conv2D(8, 3, strides=2, activation="tanh")
    dense = keras.layers.Dense(_FEATURES, activation="tanh")
    return DANN(
        keras.Sequential([keras.Input(_SHAPE), convolution, keras.layers.Flatten(), dense]),
        label_head=keras.Sequential([keras.Input((_FEATURES,)), keras.layers.Dense(5)]),
        domain_head=keras.Sequential([keras.Input((_FEATURES,)), keras.layers.Dense(1)]),
        strength=_STRENGTH,
    )


def _pairs():
    rng = np.random.default_rng(0)
    source = rng.normal(size=(_BATCH, *_SHAPE)).astype("float32")
    target = (0.5 * rng.normal(size=source.shape) + 1).astype("float32")
    labels = np.arange(_BATCH) % 5
    return pair((source, labels), target, batch_size=_BATCH, repeat=True, seed=0)
