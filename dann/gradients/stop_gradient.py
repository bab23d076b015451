"""Gradients that are not the derivative, built from differentiable operations."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.checks import shapes_may_match
from dann.gradients.override import NamedFunction, floating_tensor
from dann.gradients.reads import ReadRecorder, record_reads, reject_reads


def straight_through(value: Any, carrier: Any) -> Any:
    """Returns a tensor with the value of `value` and the gradient of `carrier`.

    - forward: `y = stop_gradient(value) + (carrier - stop_gradient(carrier)) = value`
    - backward: `dL/dcarrier = dL/dy`

    Prefer this function where both tensors can be computed side by side: every operation runs once,
    random numbers are drawn once, and all variables that `carrier` depends on get gradients. It
    works on every Keras backend and under every transformation.

    The term in parentheses is exactly 0 where `carrier` is finite, so `y` equals `value` exactly.
    Where `carrier` is infinite or NaN, `y` is NaN; and `-0.0` becomes `+0.0`.

    Args:
        value: Tensor that the function returns; cast to the type of `carrier`.
        carrier: Floating-point tensor that carries the gradient, in a shape that broadcasts to the
            shape of `value`.

    Returns:
        A tensor in the shape of `value` and the type of `carrier`.

    Raises:
        TypeError: If `carrier` is not floating.
        ValueError: If `carrier` does not broadcast to the shape of `value`.

    Example:

    >>> import keras
    >>> from dann.gradients import straight_through
    >>> probabilities = keras.ops.softmax(keras.ops.array([[0.1, 2.0, 0.3]]))
    >>> choice = keras.ops.one_hot(keras.ops.argmax(probabilities, axis=-1), 3)
    >>> straight_through(choice, probabilities).shape == choice.shape
    True

    Reference:
        - [Bengio et al., 2013](https://arxiv.org/abs/1308.3432), section 4, the straight-through
          estimator.
    """
    if not keras.backend.is_keras_tensor(carrier):  # in a functional model
        carrier = floating_tensor(carrier)
    constant: Any = ops.stop_gradient(ops.cast(value, carrier.dtype))
    outputs = _carry(constant, carrier)
    if not shapes_may_match(outputs.shape, constant.shape):
        raise ValueError(
            "Expected `carrier` to broadcast to the shape of `value`. "
            f"Received: shapes {tuple(carrier.shape)} and {tuple(constant.shape)}"
        )
    return outputs


def _carry(constant, carrier):
    # In this order, because `carrier + (constant - carrier)` would round the value.
    return constant + (carrier - ops.stop_gradient(carrier))


def surrogate_gradient(forward: Callable, surrogate: Callable, name: str | None = None) -> Callable:
    """Makes a function with the value of `forward` and the gradient of `surrogate`.

    With `f = forward` and `g = surrogate`,

    - forward: `y = stop_gradient(f(x)) + (g(x) - stop_gradient(g(x))) = f(x)`
    - backward: `dy/dx = dg/dx`

    The term in parentheses is exactly 0 where `g(x)` is finite, so `y` equals `f(x)` exactly. The
    shorter form `g(x) + stop_gradient(f(x) - g(x))` rounds twice: 4 of 10 float32 values then
    differ from `f(x)`. Where `g(x)` is infinite or NaN, `y` is NaN; and `f(x) = -0.0` becomes
    `+0.0`.

    Both functions run at each call, so random operations in them draw different numbers; use
    `straight_through` to draw once.

    Args:
        forward: Function of one or more tensors that returns one tensor.
        surrogate: Function of the same tensors, whose result broadcasts to the shape of the result
            of `forward`. Only its derivative matters, not its value. It must read every trainable
            variable that `forward` reads, or both functions must take the variable as an input.
        name: Name of the new function. To save a model that contains the function, register it with
            Keras under this name. Defaults to the joined names of `forward` and `surrogate`.

    Returns:
        A function of the same tensors. It works on every Keras backend and under every
        transformation, without registration.

    Raises:
        ValueError: When called, if only `forward` reads a trainable variable.

    Example:

    >>> import keras
    >>> from dann.gradients import surrogate_gradient
    >>> round_straight_through = surrogate_gradient(keras.ops.round, lambda inputs: inputs)
    >>> [float(value) for value in round_straight_through(keras.ops.array([0.4, 1.6]))]
    [0.0, 2.0]

    Reference:
        - [Bengio et al., 2013](https://arxiv.org/abs/1308.3432), section 4, the straight-through
          estimator.
    """

    def call(*inputs):
        inputs = tuple(x.value if isinstance(x, keras.Variable) else x for x in inputs)
        carrier = surrogate(*inputs)
        value, names = record_reads(forward, inputs)
        if names:  # the surrogate must read the same variables
            with ReadRecorder():  # discards the assignments of the second call
                _, names_in_surrogate = record_reads(surrogate, inputs)
            reject_reads({k: name for k, name in names.items() if k not in names_in_surrogate})
        return _carry(ops.stop_gradient(value), carrier)

    return NamedFunction(call, name, forward, surrogate)
