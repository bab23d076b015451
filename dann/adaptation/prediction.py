"""Outputs of a network outside of a training step."""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.data.examples import Examples, OrderedBatches, check_frame_columns

# Tracing a network takes about the time that compiled code saves over this number of batches. The
# rule depends only on the call, so that a resumed run is bit-identical.
_MIN_COMPILED_BATCHES = 8
_COMPILED: weakref.WeakKeyDictionary[Any, Callable] = weakref.WeakKeyDictionary()


class NotFiniteError(ValueError, FloatingPointError):
    """Raised if outputs of a network are NaN or infinite."""


def predict(network: Any, inputs: Any, batch_size: int = 256) -> np.ndarray:
    """Returns the outputs of a network in inference mode, computed batch by batch.

    The network runs on one device of this process, with copies of its variables, which may be
    distributed over several devices or processes. For 8 or more batches, the network is compiled,
    once for all calls.

    Args:
        network: A built Keras model or layer, such as the `backbone` of a method.
        inputs: Array-like `(n, ...)`, or a nested structure of array-likes for several inputs.
        batch_size: Number of examples per batch, at least 1. Defaults to `256`.

    Returns:
        Array `(n, ...)` with the dtype of the outputs.

    Raises:
        ValueError: If `network` is the `classifier` of a method, and data frames have other columns
            than the frames in its `fit`.
    """
    check_frame_columns(inputs, getattr(network, "frame_columns", ()))
    batches = OrderedBatches(Examples({"inputs": inputs}, "data"), batch_size)
    run = functools.partial(_run, network)
    if len(batches) >= _MIN_COMPILED_BATCHES:
        run = _compile(network)
    with _one_device():
        values = [ops.convert_to_tensor(to_numpy(variable)) for variable in network.variables]
        outputs = [to_numpy(run(values, batch)) for (batch,) in batches]
    return np.concatenate(outputs)


def check_finite_outputs(name: str, values: np.ndarray) -> np.ndarray:
    """Returns outputs `(n, ...)` in float64, and raises `NotFiniteError` if one is not finite."""
    num_nonfinite = int((~np.isfinite(values).reshape(len(values), -1).all(axis=1)).sum())
    if num_nonfinite:
        raise NotFiniteError(
            f"Expected finite {name}. Received: NaN or infinite values for {num_nonfinite} of "
            f"{len(values)} inputs. The model has probably diverged; lower the learning rate"
        )
    return values.astype("float64")


def _run(network, values, batch):
    # Not `stateless_call`, which fails where `call` has no argument `training`.
    with keras.StatelessScope(list(zip(network.variables, values, strict=True))):
        return network(batch, training=False)


def _compile(network):
    """Returns `_run` of a network as a compiled function, which lives as long as the network."""
    if network in _COMPILED:
        return _COMPILED[network]
    reference = weakref.ref(network)

    def run(values, batch):
        return _run(reference(), values, batch)

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        run = tf.function(run, autograph=False, reduce_retracing=True)
    elif keras.backend.backend() == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        run = jax.jit(run)
    _COMPILED[network] = run
    return run


@contextlib.contextmanager
def final_weights(model: Any) -> Iterator[None]:
    """Temporarily sets the weights that training would return if it stopped now.

    With `use_ema=True`, the optimizer replaces the weights by their averages at the end of `fit`.
    On exit, the training weights are restored exactly.

    Args:
        model: Compiled model.
    """
    weights = model.trainable_variables
    training = [to_numpy(weight) for weight in weights]
    model.optimizer.finalize_variable_values(weights)
    try:
        yield
    finally:
        for weight, value in zip(weights, training, strict=True):
            weight.assign(value)


def to_numpy(tensor: Any) -> np.ndarray:
    """Returns a copy of a tensor or variable as an array."""
    return np.array(ops.convert_to_numpy(tensor))


def _one_device() -> contextlib.AbstractContextManager:
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax  # pyright: ignore[reportMissingImports]

    return jax.default_device(jax.local_devices()[0])
