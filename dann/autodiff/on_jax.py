"""The JAX side of derivatives: backward passes as functions, vectorized or one after another."""

import math
from collections.abc import Callable
from typing import Any

import keras

from dann.autodiff.function_cache import cached_with
from dann.autodiff.functions import as_function, as_pure_function

if keras.backend.backend() == "jax":  # other backends do not need it installed
    import jax  # pyright: ignore[reportMissingImports]
    from jax import numpy as jnp  # pyright: ignore[reportMissingImports]

ENGINES = ("pfor", "while", "forward")


def tensor(value: Any) -> Any:
    """Returns a value as an array of its own type."""
    return jnp.asarray(value)


def is_concrete(value: Any) -> bool:
    """Whether an array has a value, and is not a symbol in a function that is being traced."""
    return not isinstance(value, jax.core.Tracer)  # pyright: ignore[reportAttributeAccessIssue]


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from upstream gradients to gradients."""
    outputs, pull_nested = jax.vjp(
        lambda *xs: jax.tree.map(tensor, function(*xs)), *(tensor(x) for x in xs)
    )

    def pull(upstream, unconnected="zero"):
        if unconnected != "zero":
            raise NotImplementedError(
                "JAX gives zeros where outputs do not depend on an argument, and does not say "
                f"so; use unconnected_gradients='zero'. Received: {unconnected!r}"
            )
        return list(pull_nested(keras.tree.pack_sequence_as(outputs, upstream)))

    return outputs, pull


def push_forward(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from tangents to the outputs' tangents."""
    outputs, pull = pull_back(function, xs)
    # The gradients are linear in the upstream ones, so any value does.
    upstream = [jnp.zeros_like(y) for y in keras.tree.flatten(outputs)]
    _, push_nested = jax.vjp(pull, upstream)
    return outputs, lambda tangents: push_nested(list(tangents))[0]


def jacobian(call: Callable, x: Any) -> Any:
    """Returns the whole Jacobian, vectorized over the outputs."""
    y, pull = pull_back(call, [x])
    basis = jnp.eye(y.size, dtype=y.dtype).reshape(y.size, *y.shape)
    return jax.vmap(lambda row: pull([row])[0])(basis).reshape(*y.shape, *x.shape)


def rows(call: Callable, x: Any, at_once: int) -> Any:
    """Returns each example's Jacobian, `(batch, *output, *example)`, some outputs at a time."""
    y, pull = pull_back(call, [x])
    size = math.prod(y.shape[1:])

    def row(unit):
        return pull([jnp.broadcast_to(unit.reshape(y.shape[1:]), y.shape)])[0]

    matrix = _map(row, jnp.eye(size, dtype=y.dtype), at_once)  # (outputs, batch, *example)
    return jnp.moveaxis(matrix, 0, 1).reshape(*y.shape, *x.shape[1:])


def columns(call: Callable, x: Any, at_once: int) -> Any:
    """Returns what `rows` returns, from the derivatives along some inputs at a time."""
    y, push = push_forward(call, [x])
    size = math.prod(x.shape[1:])

    def column(unit):
        return push([jnp.broadcast_to(unit.reshape(x.shape[1:]), x.shape)])[0]

    matrix = _map(column, jnp.eye(size, dtype=x.dtype), at_once)  # (inputs, batch, *output)
    return jnp.moveaxis(matrix, 0, -1).reshape(*y.shape, *x.shape[1:])


def _map(function, basis, at_once):
    if at_once >= len(basis):
        return jax.vmap(function)(basis)
    return jax.lax.map(function, basis, batch_size=None if at_once == 1 else at_once)


def measured(function: Any, x: Any) -> tuple[int, bool]:
    """Returns the elements of the largest array on the way to a function's output, and `False`,
    because all loops can be vectorized."""
    jaxpr = jax.make_jaxpr(as_pure_function(function))(x)
    return max([x.size, *_sizes(jaxpr.jaxpr)]), False


def _sizes(jaxpr):
    for equation in jaxpr.eqns:
        yield from (variable.aval.size for variable in equation.outvars)
        for inner in jax.tree.leaves(list(equation.params.values())):
            body = getattr(inner, "jaxpr", inner)
            if hasattr(body, "eqns"):
                yield from _sizes(body)


def run(function: Any, program: Callable, *tensors: Any, **static: Any) -> Any:
    """Runs `program(call, *tensors, **static)`, compiled and cached for a Keras model.

    The program gets the function or Keras model as `call`. Each value in `static` makes a compiled
    program of its own.
    """
    if not is_concrete(tensors[0]):
        return program(as_function(function), *tensors, **static)
    if not isinstance(function, keras.Model):
        return program(as_pure_function(function), *tensors, **static)

    def make(get):
        # The weights are arguments, or their values would be compiled in.
        def pure(weights, *tensors):
            def call(*inputs):
                with keras.StatelessScope(list(zip(get().variables, weights, strict=True))):
                    return as_function(get())(*inputs)

            return program(call, *tensors, **static)

        return jax.jit(pure)

    compiled = cached_with(function, (program, *static.items()), make)
    return compiled([variable.value for variable in function.variables], *tensors)
