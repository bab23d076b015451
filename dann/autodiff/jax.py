from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def gradients(function: Callable[..., Any], xs: list[Any]) -> list[Any]:
    """Returns the gradients of a scalar; see `dann.autodiff.gradients`."""
    xs = [jnp.asarray(x) for x in xs]
    return list(jax.grad(function, argnums=tuple(range(len(xs))))(*xs))
