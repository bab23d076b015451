"""Derivatives on PyTorch: successive backward passes, which can be differentiated again."""

from collections.abc import Callable
from typing import Any

import keras

from dann.autodiff.functions import as_pure_function, call_with_values

if keras.backend.backend() == "torch":  # other backends do not need it installed
    import torch  # pyright: ignore[reportMissingImports]
    from torch.nn import attention  # pyright: ignore[reportMissingImports]

VARIABLES = keras.Variable


def tensor(value: Any) -> Any:
    """Returns a value as a tensor of its own type."""
    return keras.ops.convert_to_tensor(value)


def has_value(value: Any) -> bool:
    """Returns whether a tensor is not a placeholder that only has a shape."""
    return value.device.type != "meta"


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns the outputs of a function, and the function from upstream gradients to gradients."""
    # Keras disables gradients while it builds a model, but a gradient inside a model needs them.
    # PyTorch has no second derivative of fused attention, only of attention by matrix products.
    with torch.enable_grad(), attention.sdpa_kernel(attention.SDPBackend.MATH):
        arguments = [_track(tensor(x)) for x in xs]
        outputs = keras.tree.map_structure(tensor, call_with_values(function, xs, arguments))
    ys = keras.tree.flatten(outputs)

    def pull(upstream, unconnected="zero"):
        tracked = [y if y.requires_grad else _track(y) for y in ys]  # `grad` refuses constants
        options = {"allow_unused": True, "materialize_grads": unconnected == "zero"}
        return list(torch.autograd.grad(tracked, arguments, upstream, create_graph=True, **options))

    return outputs, pull


def map_range(function: Callable, count: int, dtypes: Any) -> Any:
    """Returns the stacked results of a function for the numbers below `count`."""
    results = [function(torch.tensor(number)) for number in range(count)]
    return keras.tree.map_structure(lambda *rows: torch.stack(rows), *results)


def may_override(y: Any, pull: Callable) -> bool:
    """Returns whether a `torch.autograd.Function` is among the operations that compute `y`."""
    nodes, visited = [y.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return True
        if node is not None and node not in visited:
            visited.add(node)
            nodes.extend(parent for parent, _ in node.next_functions)
    return False


def has_loops(y: Any) -> bool:
    """Returns whether second derivatives cannot be vectorized; nothing is vectorized here."""
    return False


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)`; nothing is compiled."""
    return program(as_pure_function(function), x, **static)


def _track(x):
    """Returns a copy that gradients can refer to, even if the function reads the original."""
    return x.clone() if x.requires_grad else x.detach().clone().requires_grad_()
