from collections.abc import Callable
from typing import Any


def gradients(function: Callable[..., Any], xs: list[Any]) -> list[Any]:
    """Returns the gradients of a scalar; see `dann.autodiff.gradients`."""
    import jax  # pyright: ignore[reportMissingImports]

    xs = [jax.numpy.asarray(x) for x in xs]
    return list(jax.grad(function, argnums=tuple(range(len(xs))))(*xs))
