"""Checks that the devices of this machine train as they should."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from dann.adaptation import DANN
from dann.data import pair
from dann.gradients import reverse_gradient
from dann.training.distribution import Distribution
from dann.training.hardware import accelerators, hardware, peak_memory
from dann.training.plain_training import gradient, plain_training
from dann.training.preparation import start

_RATE, _STRENGTH, _BATCH, _STEPS = 0.1, 0.7, 24, 20
_SHAPE, _FEATURES, _CLASSES = (16, 16, 3), 32, 5
# How far an update may be from the CPU's in float32: the norm of the difference over its norm. A
# CPU is off by .0068 at most in bfloat16, by .0007 in float16 (4 seeds, JAX); half the strength by
# .37. Accelerators may multiply float32 in TF32, which has the digits of float16.
_TOLERANCES = {"float32": 4e-3, "mixed_bfloat16": 3e-2, "mixed_float16": 4e-3}


class DeviceError(RuntimeError):
    """A device does not do what it should."""


def check_device(distribution: Distribution | None = None) -> Iterator[str]:
    """Checks the devices of the running Keras backend; gives a line after each check.

    The reversal is compared with its formula; a step of DANN on the device with the CPU's in
    float32, and with the same step written by hand; a step on several devices with one device's. A
    step's time and the peak of memory are measured and judge nothing.

    Args:
        distribution: The devices to compare with one. Defaults to `None`: all accelerators, if
            there are several and the backend is TensorFlow or JAX.

    Raises:
        DeviceError: At the first check that fails, also where the backend itself raises an error.
    """
    if distribution is None and len(accelerators()) > 1 and keras.backend.backend() != "torch":
        distribution = Distribution("data_parallel")
    checks: list[Callable[[], Iterator[str]]] = [_devices, _reversal, _precisions, _step]
    if distribution is not None:
        checks.append(lambda: _several(distribution))
    policy = keras.config.dtype_policy()
    try:
        for check in [*checks, _memory]:
            with _told_in_one_line():
                yield from check()
    finally:
        keras.config.set_dtype_policy(policy)


@contextlib.contextmanager
def _told_in_one_line():
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:  # a driver or a library can raise anything
        first = str(error).strip().partition("\n")[0]
        raise DeviceError(
            f"Expected the check to run. Received: {type(error).__name__}, {first}"
        ) from error


def _devices():
    backend = keras.backend.backend()
    version = sys.modules["dann"].__version__
    yield f"devices: {hardware()}; {backend}, Keras {keras.__version__}, dann {version}"


def _reversal():
    """`dL/dx = -strength * dL/dy`, exactly, in the device's arithmetic of one product."""
    rng = np.random.default_rng(0)
    x, upstream = rng.normal(size=(2, 4, 5)).astype("float32")
    tensors = keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(upstream)
    for compiled in (False, True):
        found = {}
        mode = "compiled" if compiled else "eager"
        for way in ("override", "stop_gradient"):

            def reverse(x, way=way):
                return reverse_gradient(x, strength=_STRENGTH, way=way)

            found[way] = keras.ops.convert_to_numpy(gradient(reverse, *tensors, compiled))
            error = _distance(found[way], -_STRENGTH * upstream)
            if not error < 1e-6:
                scale = np.vdot(found[way], upstream) / np.vdot(upstream, upstream)
                raise DeviceError(
                    f"Expected the {mode} reversal, way={way!r}, to multiply the gradient by "
                    f"-{_STRENGTH}. Received: {scale:.4g} times it, {error:.2g} off"
                )
        if not np.array_equal(*found.values()):
            raise DeviceError(
                f"Expected both ways of the {mode} reversal to give the same gradient. Received: "
                f"two, up to {np.abs(np.subtract(*found.values())).max():.2g} apart"
            )
        yield f"reversal, {mode}: the gradient times -{_STRENGTH}, both ways the same"


def _precisions():
    with keras.device("cpu"):
        begin, reference = _update("float32", run_eagerly=True)
    for precision, tolerance in _TOLERANCES.items():
        error = _distance(_update(precision, begin)[1], reference)
        if not error < tolerance:
            raise DeviceError(
                f"Expected a step in {precision} within {tolerance:g} of the CPU's in float32. "
                f"Received: {error:.2g} off"
            )
        yield f"step in {precision}: {error:.1e} off the CPU's in float32, at most {tolerance:g}"


def _step():
    """Compares with a step by hand: the update, and the time of more steps."""
    model = _model("float32")
    pairs = _pairs()
    inputs, labels = pairs[0]
    batch = [keras.ops.convert_to_tensor(a) for a in (inputs["source"], inputs["target"], labels)]
    begin = _weights(model)
    parts = model.backbone, model.label_head, model.domain_head
    plain = plain_training(parts, _RATE, _STRENGTH)
    plain.step(*batch)
    by_hand = _flat(plain.weights()) - _flat(begin)
    error = _distance(_update("float32", begin)[1], by_hand)
    if not error < _TOLERANCES["float32"]:
        raise DeviceError(
            "Expected the update of a step written by hand, within "
            f"{_TOLERANCES['float32']:g}. Received: {error:.2g} off"
        )
    yield f"step in float32: {error:.1e} off one written by hand"

    def steps_by_hand():
        for _ in range(_STEPS):
            loss = plain.step(*batch)
        keras.ops.convert_to_numpy(loss)  # waits for the device

    mine = _milliseconds(lambda: _fit(model, pairs, _STEPS))
    its = _milliseconds(steps_by_hand)
    yield f"time of a step: {mine:.2f} ms, by hand {its:.2f} ms, ratio {mine / its:.2f}"


def _several(distribution):
    distribution.check()
    begin, reference = _update("float32")
    error = _distance(_update("float32", begin, distribution)[1], reference)
    count = distribution.devices
    if not error < _TOLERANCES["float32"]:
        raise DeviceError(
            f"Expected a step on several devices ({count}) within {_TOLERANCES['float32']:g} of "
            f"one device's. Received: {error:.2g} off"
        )
    yield f"step on several devices ({count}): {error:.1e} off one device's"


def _memory():
    peak = peak_memory()
    told = "the backend does not tell" if peak is None else f"{peak / 2**20:.1f} MiB"
    yield f"peak memory of the first device: {told}"


def _model(precision, distribution=None, run_eagerly=False) -> Any:
    start(0, precision, distribution)
    with (distribution or Distribution()).scope():
        # Smooth everywhere: at a kink, rounding may choose another slope.
        layers = [
            keras.layers.Conv2D(8, 3, strides=2, activation="tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(_FEATURES, activation="tanh"),
        ]
        model = DANN(
            keras.Sequential([keras.Input(_SHAPE), *layers]),
            label_head=keras.Sequential([keras.Input((_FEATURES,)), keras.layers.Dense(_CLASSES)]),
            domain_head=keras.Sequential([keras.Input((_FEATURES,)), keras.layers.Dense(1)]),
            strength=_STRENGTH,
        )
        optimizer: Any = keras.optimizers.SGD(_RATE)
        if precision == "mixed_float16":  # a scale at which no gradient here overflows
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024.0)
        model.compile(optimizer, run_eagerly=run_eagerly)
    return model


def _pairs():
    rng = np.random.default_rng(0)
    source = rng.normal(size=(_BATCH, *_SHAPE)).astype("float32")
    target = (0.5 * rng.normal(size=source.shape) + 1).astype("float32")
    labels = np.arange(_BATCH) % _CLASSES
    return pair((source, labels), target, batch_size=_BATCH, repeat=True, seed=0)


def _update(precision, begin=None, distribution=None, run_eagerly=False):
    """The weights before a step, and what the step adds to them."""
    model = _model(precision, distribution, run_eagerly)
    if begin is not None:  # devices draw different numbers from one seed
        for weight, value in zip(model.trainable_variables, begin, strict=True):
            weight.assign(value)
    begin = _weights(model)
    _fit(model, _pairs(), 1)
    return begin, _flat(_weights(model)) - _flat(begin)


def _fit(model, pairs, steps):
    model.fit(pairs, epochs=1, steps_per_epoch=steps, verbose=0)


def _weights(model):
    return [np.array(keras.ops.convert_to_numpy(w)) for w in model.trainable_variables]


def _flat(weights):
    return np.concatenate([weight.astype("float64").ravel() for weight in weights])


def _distance(found, expected):
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def _milliseconds(run, rounds=3):
    """The least time of a step in several rounds, after one that compiles."""
    run()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return 1e3 * min(times) / _STEPS
