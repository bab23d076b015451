from collections.abc import Callable
from typing import Any

import tensorflow as tf


def gradients(function: Callable[..., Any], xs: list[Any]) -> list[Any]:
    """Returns the gradients of a scalar; see `dann.autodiff.gradients`."""
    xs = [tf.convert_to_tensor(x) for x in xs]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(xs)
        value = function(*xs)
    return tape.gradient(value, xs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
