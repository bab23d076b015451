"""The torch side of derivatives: backward passes one after another, which may be derived again."""

from collections.abc import Callable
from typing import Any

import keras

from dann.autodiff.functions import as_pure_function, call_reading

if keras.backend.backend() == "torch":  # other backends do not need it installed
    import torch  # pyright: ignore[reportMissingImports]
    from torch.nn import attention  # pyright: ignore[reportMissingImports]

VARIABLES = keras.Variable


def tensor(value: Any) -> Any:
    """Returns a value as a tensor of its own type."""
    return keras.ops.convert_to_tensor(value)


def has_value(value: Any) -> bool:
    """Whether a tensor has a value, and is not a stand-in that only has a shape."""
    return value.device.type != "meta"


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from upstream gradients to gradients."""
    # Keras builds models without gradients, which a gradient in a model needs all the same. PyTorch
    # has no second derivative of fused attention, only of attention by matrix products.
    with torch.enable_grad(), attention.sdpa_kernel(attention.SDPBackend.MATH):
        arguments = [_followed(tensor(x)) for x in xs]
        outputs = keras.tree.map_structure(tensor, call_reading(function, xs, arguments))
    ys = keras.tree.flatten(outputs)

    def pull(upstream, unconnected="zero"):
        tracked = [y if y.requires_grad else _followed(y) for y in ys]  # it refuses constants
        options = {"allow_unused": True, "materialize_grads": unconnected == "zero"}
        return list(torch.autograd.grad(tracked, arguments, upstream, create_graph=True, **options))

    return outputs, pull


def mapped(function: Callable, count: int, dtypes: Any) -> Any:
    """Returns the function's results for the numbers below `count`, stacked, one after another."""
    found = [function(torch.tensor(number)) for number in range(count)]
    return keras.tree.map_structure(lambda *parts: torch.stack(parts), *found)


def has_loops(y: Any) -> bool:
    """Whether derivatives of a tensor's derivatives cannot be vectorized: never."""
    return False


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)`; nothing is compiled."""
    return program(as_pure_function(function), x, **static)


def _followed(x):
    """A tensor of its own that gradients are taken by, also if the function reads the other."""
    return x.clone() if x.requires_grad else x.detach().clone().requires_grad_()
