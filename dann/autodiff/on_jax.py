"""The JAX side of derivatives: backward passes as functions, vectorized."""

import math
from collections.abc import Callable
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import keras
from jax import numpy as jnp  # pyright: ignore[reportMissingImports]

from dann.autodiff.functions import (
    as_function,
    as_pure_function,
    call_reading,
    program_of,
    reading_as,
)

VARIABLES = keras.Variable
_AT_ONCE = 64  # outputs of a vectorized pass; more take more memory and are not faster


def tensor(value: Any) -> Any:
    """Returns a value as an array of its own type."""
    return jnp.asarray(value)


def has_value(value: Any) -> bool:
    """Whether an array has a value, and is not a symbol in a function that is being traced."""
    return not isinstance(value, jax.core.Tracer)  # pyright: ignore[reportAttributeAccessIssue]


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from upstream gradients to gradients."""

    def traced(*arguments):
        return jax.tree.map(tensor, call_reading(function, xs, arguments))

    outputs, pull_nested = jax.vjp(traced, *(tensor(x) for x in xs))

    def pull(upstream, unconnected="zero"):
        if unconnected != "zero":
            raise NotImplementedError(
                "JAX gives zeros where outputs do not depend on an argument, and does not say "
                f"so; use unconnected_gradients='zero'. Received: {unconnected!r}"
            )
        return list(pull_nested(keras.tree.pack_sequence_as(outputs, upstream)))

    return outputs, pull


def jacobian(function: Callable, xs: list) -> list[Any]:
    """Returns the whole Jacobian by each of `xs`, vectorized over the outputs."""
    y, pull = pull_back(function, xs)
    basis = jnp.eye(y.size, dtype=y.dtype).reshape(y.size, *y.shape)
    rows = jax.vmap(lambda row: pull([row]))(basis)
    return [found.reshape(*y.shape, *x.shape) for found, x in zip(rows, xs, strict=True)]


def batch_jacobian(call: Callable, x: Any) -> Any:
    """Returns each example's Jacobian, `(batch, *output, *example)`, some outputs at a time."""
    y, pull = pull_back(call, [x])
    size = math.prod(y.shape[1:])

    def row(unit):
        return pull([jnp.broadcast_to(unit.reshape(y.shape[1:]), y.shape)])[0]

    matrix = jax.lax.map(row, jnp.eye(size, dtype=y.dtype), batch_size=_AT_ONCE)
    return jnp.moveaxis(matrix, 0, 1).reshape(*y.shape, *x.shape[1:])


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)`, compiled and kept for a Keras model."""
    if not isinstance(function, keras.Model):
        return program(as_pure_function(function), x, **static)

    def make(get):
        # The weights are arguments, or their values would be compiled in.
        def with_weights(weights, x):
            def call(x):
                with reading_as(zip(get().variables, weights, strict=True)):
                    return as_function(get())(x)

            return program(call, x, **static)

        return jax.jit(with_weights)

    compiled = program_of(function, (program, *static.items()), make)
    return compiled([variable.value for variable in function.variables], x)
