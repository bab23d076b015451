"""The torch side of derivatives: backward passes one after another, which may be derived again."""

import math
from collections.abc import Callable
from typing import Any

import keras

from dann.autodiff.functions import as_pure_function, call_reading

if keras.backend.backend() == "torch":  # other backends do not need it installed
    import torch  # pyright: ignore[reportMissingImports]
    from torch.nn.attention import (  # pyright: ignore[reportMissingImports]
        SDPBackend,
        sdpa_kernel,
    )

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
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        arguments = [_followed(tensor(x)) for x in xs]
        outputs = keras.tree.map_structure(tensor, call_reading(function, xs, arguments))
    ys = keras.tree.flatten(outputs)

    def pull(upstream, unconnected="zero"):
        return _derived(ys, arguments, upstream, unconnected)

    return outputs, pull


def jacobian(function: Callable, xs: list) -> list[Any]:
    """Returns the whole Jacobian by each of `xs`, one output after another."""
    y, pull = pull_back(function, xs)
    basis = torch.eye(y.numel(), dtype=y.dtype, device=y.device).reshape(-1, *y.shape)
    rows = zip(*[pull([row]) for row in basis], strict=True)
    pairs = zip(rows, xs, strict=True)
    return [torch.stack(found).reshape(*y.shape, *x.shape) for found, x in pairs]


def batch_jacobian(call: Callable, x: Any) -> Any:
    """Returns each example's Jacobian, `(batch, *output, *example)`, one output after another."""
    y, pull = pull_back(call, [x])
    units = torch.eye(math.prod(y.shape[1:]), dtype=y.dtype, device=y.device)
    rows = [pull([unit.reshape(y.shape[1:]).expand(y.shape)])[0] for unit in units]
    return torch.stack(rows, dim=1).reshape(*y.shape, *x.shape[1:])


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)`; nothing is compiled."""
    return program(as_pure_function(function), x, **static)


def _followed(x):
    """A tensor of its own that gradients are taken by, also if the function reads the other."""
    return x.clone() if x.requires_grad else x.detach().clone().requires_grad_()


def _derived(ys, xs, upstream, unconnected):
    pairs = [(y, u) for y, u in zip(ys, upstream, strict=True) if y.requires_grad]
    found = [None] * len(xs)
    if pairs:
        ys, upstream = map(list, zip(*pairs, strict=True))
        found = torch.autograd.grad(ys, xs, upstream, create_graph=True, allow_unused=True)
    if unconnected == "zero":
        return [torch.zeros_like(x) if g is None else g for g, x in zip(found, xs, strict=True)]
    return list(found)
