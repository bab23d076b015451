"""Way 2: a gradient that is not the derivative, by stopping the derivative."""

from collections.abc import Callable

import keras
from keras import ops

from dann.gradients.override import NamedFunction, Reads, reads, refuse_reads


def surrogate_gradient(forward: Callable, surrogate: Callable, name: str | None = None) -> Callable:
    """Makes a function with the value of `forward` and the gradient of `surrogate`.

    With `f = forward` and `g = surrogate`,

    - forward: `y = stop_gradient(f(x)) + (g(x) - stop_gradient(g(x))) = f(x)`
    - backward: `dy/dx = dg/dx`

    The bracket is zero to the last bit wherever `g(x)` is finite, so `y` equals `f(x)` exactly. The
    shorter form `g(x) + stop_gradient(f(x) - g(x))` rounds twice: 4 of 10 float32 values then
    differ from `f(x)`. Where `g(x)` is infinite or NaN the bracket, and so `y`, is NaN; and
    `f(x) = -0.0` comes out as `+0.0`.

    Args:
        forward: Function of one or more tensors that returns one tensor.
        surrogate: Function of the same tensors, whose result broadcasts to that of `forward`.
            Only its derivative counts, not its value. It reads every trainable variable that
            `forward` reads, or these are inputs of both.
        name: As in `override_gradient`.

    Returns:
        A function of the same tensors. It works on every Keras backend, under every
        transformation, and needs nothing registered.

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
        with reads() as read:
            value = ops.stop_gradient(forward(*inputs))
        if read:  # the surrogate must read them too
            with Reads() as others:
                surrogate(*inputs)
            refuse_reads({key: one for key, one in read.items() if key not in others.read})
        return value + (carrier - ops.stop_gradient(carrier))

    return NamedFunction(call, name, forward, surrogate)
