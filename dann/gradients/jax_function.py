"""The JAX side of an overridden gradient: one that holds in derivatives of derivatives too."""

from collections.abc import Callable


def as_jax_function(forward: Callable, gradient: Callable) -> Callable:
    """Makes a function of `forward` that differentiates as `gradient` says, at every order.

    `jax.custom_gradient`, which `keras.ops.custom_gradient` stands for, differentiates `forward`
    itself when a gradient is differentiated once more. Here the forward rule calls the function
    with the overridden gradient, as TensorFlow's tapes do.

    Args:
        forward: Function of arrays.
        gradient: Function `(upstream, *inputs)` that returns a tuple of one gradient an input.

    Returns:
        A function of the same arrays.
    """
    import jax  # pyright: ignore[reportMissingImports]

    @jax.custom_vjp
    def overridden(*inputs):
        return forward(*inputs)

    def run_forward(*inputs):
        return overridden(*inputs), inputs

    def run_backward(inputs, upstream):
        return gradient(upstream, *inputs)

    overridden.defvjp(run_forward, run_backward)
    return overridden
