"""Derivatives of functions of tensors, on whichever Keras backend runs."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import keras

__all__ = ["gradients"]

_ENGINES = {"tensorflow": "dann.autodiff.on_tensorflow", "jax": "dann.autodiff.on_jax"}


def gradients(function: Callable[..., Any], xs: Sequence[Any]) -> list[Any]:
    """Returns the gradients of a scalar with respect to each of its arguments.

    - `gradients(f, [x1, x2]) = [df(x1, x2)/dx1, df(x1, x2)/dx2]`

    The result can be differentiated again. An argument that the scalar does not depend on has a
    gradient of zeros.

    Args:
        function: Takes as many tensors as `xs` holds and returns a scalar.
        xs: Floating-point tensors, as values: not the variables that they come from.

    Returns:
        A list of tensors, each in the shape of its argument.

    Raises:
        NotImplementedError: On a Keras backend other than TensorFlow and JAX.

    Example:

    >>> import keras
    >>> from dann.autodiff import gradients
    >>> x = keras.ops.convert_to_tensor([1.0, 2.0])
    >>> gradient = gradients(lambda x: keras.ops.sum(x**2), [x])[0]
    >>> [float(value) for value in gradient]
    [2.0, 4.0]
    """
    backend = keras.backend.backend()
    if backend not in _ENGINES:
        raise NotImplementedError(
            f"Derivatives are there on {sorted(_ENGINES)}. Received: Keras backend {backend!r}"
        )
    return importlib.import_module(_ENGINES[backend]).gradients(function, list(xs))
