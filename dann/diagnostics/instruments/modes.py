"""Runs measurements eagerly or compiled, as the model trains."""

from collections.abc import Callable
from typing import Any

import keras

from dann.checks import check_choice

MODES = ("eager", "graph", "xla")


def mode_of(model: Any = None) -> str:
    """Returns how `fit` runs the model as it is compiled: `"eager"`, `"graph"` or `"xla"`.

    Without a model it is `"graph"`. On torch it is always `"eager"`: what `torch.compile` makes of
    it is not measured.
    """
    if keras.backend.backend() == "torch":
        return "eager"
    if not getattr(model, "compiled", False):
        return "graph"
    if model.run_eagerly:
        return "eager"
    return "xla" if model.jit_compile else "graph"


def in_mode(function: Callable, mode: str) -> Callable:
    """Returns a function of tensors as it runs in a mode; on JAX graph and XLA are the same.

    Raises:
        NotImplementedError: If it must be compiled on a backend other than TensorFlow and JAX.
        ValueError: If the mode is unknown.
    """
    check_choice("mode", mode, MODES)
    if mode == "eager":
        return function
    backend = keras.backend.backend()
    if backend == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        return jax.jit(function)
    if backend == "tensorflow":
        import tensorflow as tf

        compiled = tf.function(function, jit_compile=mode == "xla", autograph=False)
        # Called directly, TensorFlow would warn of functions that are traced once each.
        return lambda *inputs: compiled.get_concrete_function(*inputs)(*inputs)
    raise NotImplementedError(
        "Compiled measurements need TensorFlow or JAX; use `mode='eager'`. "
        f"Received: Keras backend {backend!r}"
    )


def modes_here() -> tuple[str, ...]:
    """Returns the modes that the running backend has, each different from the others."""
    backend = keras.backend.backend()
    return {"tensorflow": MODES, "jax": MODES[:2]}.get(backend, MODES[:1])


def as_tensors(data: Any) -> Any:
    """Returns the arrays of a batch as tensors, in the structure that they came in."""
    return keras.tree.map_structure(keras.ops.convert_to_tensor, data)


def inputs_of(data: Any) -> Any:
    """Returns the inputs of a batch: the first of a tuple of two, or else all of it."""
    return data[0] if isinstance(data, tuple) and len(data) == 2 else data
