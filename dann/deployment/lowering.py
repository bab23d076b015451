"""Turns the layers of a Keras model into the steps of a packed program."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.deployment.graph import Node, PackError
from dann.deployment.runtime import FUNCTIONS, Step


class Builder(list[Step]):
    """The steps of a program under construction."""

    def add(
        self,
        op: str,
        node: Any,
        inputs: Sequence[int],
        kind: str = "float",
        attributes: Mapping[str, Any] | None = None,
        shape: Sequence[int] | None = None,
        **arrays: np.ndarray | None,
    ) -> int:
        """Adds a step for a call and returns its number; it leaves out arrays that are `None`.

        The shape is that of the call's output, unless given.
        """
        kept = {name: array for name, array in arrays.items() if array is not None}
        shape = list(node.shape if shape is None else shape)
        self.append(Step(op, node.name, list(inputs), shape, kind, attributes or {}, kept))
        return len(self) - 1


# Adds the steps of a call to those so far, from the numbers of its inputs' steps.
Rule = Callable[[Builder, Node, Sequence[int]], int]


def lower(calls: Sequence[Node], rules: Mapping[Any, Rule]) -> list[Step]:
    """Returns the program of a traced model, layer by layer.

    Args:
        calls: See `trace`.
        rules: The rule for each class of layers, and for operations of `keras.ops` by the name of
            their class. Subclasses do not count as their parents: they may compute otherwise.

    Raises:
        PackError: If there is no rule for a layer, or its rule raises it; or if it does not compute
            in float32.
    """
    steps, numbers = Builder(), {}
    for node in calls:
        inputs = [numbers[one] for one in node.inputs]
        if node.layer is None:
            numbers[node] = steps.add("input", node, ())
            continue
        policy = getattr(node.layer, "dtype_policy", None)
        require(policy is None or policy.name == "float32", node, "compute in float32", policy)
        numbers[node] = _rule(node, rules)(steps, node, inputs)
    return steps


def _rule(node, rules):
    kind = type(node.layer)
    if not isinstance(node.layer, keras.layers.Layer):
        kind = kind.__name__
    if kind not in rules:
        raise PackError(
            f"{node.name!r} cannot be packed. Use other layers, or write a rule for it: "
            f"docs/deployment.md lists those that can. Received: {type(node.layer).__name__}"
        )
    return rules[kind]


def require(condition: Any, node: Node, what: str, received: Any) -> None:
    """Raises `PackError` unless a condition holds: the layer must `what` to be packed."""
    if not condition:
        raise PackError(f"Layer {node.name!r} must {what} to be packed. Received: {received}")


def require_channels_last(node: Node) -> None:
    """Raises `PackError` if the layer's channels come first."""
    order = getattr(node.layer, "data_format", None)
    require(order in (None, "channels_last"), node, "have data_format='channels_last'", order)


def array(values: Any) -> np.ndarray:
    """Returns a tensor as `float32`, in the byte order of packed files."""
    return np.asarray(keras.ops.convert_to_numpy(values), "<f4")


def of_channels(node: Node, values: Any) -> np.ndarray:
    """Returns a tensor of one number, or of one for each channel of the last axis, as an array."""
    values = np.atleast_1d(array(values))
    require(values.size == values.shape[-1], node, "act on the last axis", values.shape)
    return values.reshape(-1)


def activated(steps: Builder, node: Node, number: int, activation: Any) -> int:
    """Adds an activation function, of `keras.activations`."""
    if activation is None or activation is keras.activations.linear:
        return number
    name = getattr(activation, "__name__", str(activation))
    known = name in FUNCTIONS and activation is getattr(keras.activations, name)
    require(known, node, f"have one of the activations linear, {', '.join(FUNCTIONS)}", name)
    return steps.add("activation", node, [number], attributes={"function": name})
