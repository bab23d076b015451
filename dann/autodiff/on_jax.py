"""The JAX side of derivatives: backward passes as functions, vectorized."""

from collections.abc import Callable
from typing import Any

import keras

from dann.autodiff import functions

if keras.backend.backend() == "jax":  # other backends do not need it installed
    import jax  # pyright: ignore[reportMissingImports]

VARIABLES = keras.Variable
_AT_ONCE = 64  # outputs of a vectorized pass; more take more memory and are not faster


def tensor(value: Any) -> Any:
    """Returns a value as an array of its own type."""
    return jax.numpy.asarray(value)


def has_value(value: Any) -> bool:
    """Whether an array has a value, and is not a symbol in a function that is being traced."""
    return not isinstance(value, jax.core.Tracer)  # pyright: ignore[reportAttributeAccessIssue]


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from upstream gradients to gradients."""

    def traced(*arguments):
        return jax.tree.map(tensor, functions.call_reading(function, xs, arguments))

    outputs, pull_nested = jax.vjp(traced, *(tensor(x) for x in xs))

    def pull(upstream, unconnected="zero"):
        if unconnected != "zero":
            raise NotImplementedError(
                f"On JAX unconnected_gradients is 'zero', not {unconnected!r}"
            )
        return list(pull_nested(keras.tree.pack_sequence_as(outputs, upstream)))

    return outputs, pull


def mapped(function: Callable, count: int, dtypes: Any) -> Any:
    """Returns the function's results for the numbers below `count`, stacked; some at a time."""
    return jax.lax.map(function, jax.numpy.arange(count), batch_size=_AT_ONCE)


def has_loops(y: Any) -> bool:
    """Whether derivatives of a tensor's derivatives cannot be vectorized: never."""
    return False


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)`, compiled and kept for a Keras model."""
    if not isinstance(function, keras.Model):
        return program(functions.as_pure_function(function), x, **static)

    def make(get):
        # The weights are arguments, or their values would be compiled in.
        def with_weights(weights, x):
            def call(x):
                with functions.reading_as(zip(get().variables, weights, strict=True)):
                    return functions.as_function(get())(x)

            return program(call, x, **static)

        return jax.jit(with_weights)

    compiled = functions.program_of(function, (program, *static.items()), make)
    return compiled([variable.value for variable in function.variables], x)
