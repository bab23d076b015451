"""Derivatives on JAX: vectorized backward passes as functions."""

from collections.abc import Callable
from typing import Any

import keras

from dann.autodiff import functions

if keras.backend.backend() == "jax":  # other backends do not need it installed
    import jax  # pyright: ignore[reportMissingImports]

VARIABLES = keras.Variable
_CHUNK_SIZE = 64  # outputs per vectorized pass; more take more memory and are not faster


def tensor(value: Any) -> Any:
    """Returns a value as an array of its own type."""
    return jax.numpy.asarray(value)


def has_value(value: Any) -> bool:
    """Returns whether an array is not a symbol in a function that is being traced."""
    return not isinstance(value, jax.core.Tracer)  # pyright: ignore[reportAttributeAccessIssue]


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns the outputs of a function, and the function from upstream gradients to gradients."""

    def traced(*arguments):
        return jax.tree.map(tensor, functions.call_with_values(function, xs, arguments))

    outputs, pull_nested = jax.vjp(traced, *(tensor(x) for x in xs))

    def pull(upstream, unconnected="zero"):
        if unconnected != "zero":
            raise NotImplementedError(
                "Expected `unconnected_gradients` to be 'zero' on JAX. "
                f"Received: unconnected_gradients={unconnected!r}"
            )
        return list(pull_nested(keras.tree.pack_sequence_as(outputs, upstream)))

    return outputs, pull


def map_range(function: Callable, count: int, dtypes: Any) -> Any:
    """Returns the stacked results of a function for the numbers below `count`, in chunks."""
    return jax.lax.map(function, jax.numpy.arange(count), batch_size=_CHUNK_SIZE)


def may_override(y: Any, pull: Callable) -> bool:
    """Returns whether a function of upstream gradients may not be linear.

    JAX transposes an added constant, as in `upstream + 1e-3`, as if it were linear.
    """

    def pull_one(upstream):
        return pull([upstream])[0]

    try:
        transpose = jax.linear_transpose(pull_one, y)
        jax.eval_shape(transpose, jax.eval_shape(pull_one, y))
    except (AssertionError, NotImplementedError, RuntimeError):  # JAX cannot transpose it
        return True
    return False


def has_loops(y: Any) -> bool:
    """Returns whether second derivatives cannot be vectorized: never on JAX."""
    return False


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)`; compiles and caches it for a Keras model."""
    if not isinstance(function, keras.Model):
        return program(functions.as_pure_function(function), x, **static)

    def make(get):
        # The weights are arguments, because their values would be compiled as constants.
        def with_weights(weights, x):
            def call(x):
                with functions.substitute_values(zip(get().variables, weights, strict=True)):
                    return functions.as_function(get())(x)

            return program(call, x, **static)

        return jax.jit(with_weights)

    compiled = functions.get_program(function, (program, *static.items()), make)
    return compiled([variable.value for variable in function.variables], x)
