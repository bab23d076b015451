"""The torch side of derivatives: backward passes one after another, which may be derived again."""

import math
from collections.abc import Callable
from typing import Any

import keras

from dann.autodiff.functions import as_pure_function

if keras.backend.backend() == "torch":  # other backends do not need it installed
    import torch  # pyright: ignore[reportMissingImports]
    from torch.nn.attention import (  # pyright: ignore[reportMissingImports]
        SDPBackend,
        sdpa_kernel,
    )

ENGINES = ("while",)


def tensor(value: Any) -> Any:
    """Returns a value as a tensor of its own type."""
    return keras.ops.convert_to_tensor(value)


def is_concrete(value: Any) -> bool:
    """Whether a tensor has a value, and is not a stand-in that only has a shape."""
    return value.device.type != "meta"


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from upstream gradients to gradients."""
    # Keras builds models without gradients, which a gradient in a model needs all the same. PyTorch
    # has no second derivative of fused attention, only of attention by matrix products.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        xs = [_followed(tensor(x)) for x in xs]
        outputs = keras.tree.map_structure(tensor, function(*xs))
    ys = keras.tree.flatten(outputs)

    def pull(upstream, unconnected="zero"):
        return _derived(ys, xs, upstream, unconnected)

    return outputs, pull


def push_forward(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from tangents to the outputs' tangents."""
    outputs, pull = pull_back(function, xs)
    # The gradients are linear in the upstream ones, so any value does.
    upstream = [torch.zeros_like(y, requires_grad=True) for y in keras.tree.flatten(outputs)]
    gradients = pull(upstream)
    return outputs, lambda tangents: _derived(gradients, upstream, list(tangents), "zero")


def jacobian(call: Callable, x: Any) -> Any:
    """Returns the whole Jacobian, one output after another."""
    y, pull = pull_back(call, [x])
    basis = torch.eye(y.numel(), dtype=y.dtype, device=y.device).reshape(-1, *y.shape)
    return torch.stack([pull([row])[0] for row in basis]).reshape(*y.shape, *x.shape)


def rows(call: Callable, x: Any, at_once: int) -> Any:
    """Returns each example's Jacobian, `(batch, *output, *example)`; `at_once` must be 1."""
    y, pull = pull_back(call, [x])
    outputs = math.prod(y.shape[1:])
    found = []
    for index in range(outputs):
        upstream = torch.zeros((y.shape[0], outputs), dtype=y.dtype, device=y.device)
        upstream[:, index] = 1
        found.append(pull([upstream.reshape(y.shape)])[0])
    return torch.stack(found, dim=1).reshape(*y.shape, *x.shape[1:])


def measured(function: Any, x: Any) -> tuple[int, bool]:
    """Returns the elements of the inputs, and `True`: nothing is vectorized."""
    return x.numel(), True


def run(function: Any, program: Callable, *tensors: Any, **static: Any) -> Any:
    """Runs `program(call, *tensors, **static)`, and cuts its results from the graph."""
    results = program(as_pure_function(function), *tensors, **static)
    return keras.tree.map_structure(lambda result: result.detach(), results)


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
