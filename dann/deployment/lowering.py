"""Turns the layers of a Keras model into the steps of a program."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.deployment.graph import Node, PackError, in_order, unknown_layers
from dann.deployment.program import Program, Step

# Adds a layer's steps to the steps so far, from its call and the numbers of its inputs' steps.
Lower = Callable[["Steps", Node, Sequence[int]], int]


class Steps(list[Step]):
    """The steps of a program under construction."""

    def emit(
        self,
        op: str,
        name: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        kind: str = "float",
        attributes: Mapping[str, Any] | None = None,
        **arrays: np.ndarray | None,
    ) -> int:
        """Adds a step and returns its number; it leaves out arrays that are `None`."""
        kept = {key: array for key, array in arrays.items() if array is not None}
        self.append(Step(op, name, list(inputs), list(shape), kind, attributes or {}, kept))
        return len(self) - 1


def lower(output: Node, layers: Mapping[type, Lower], operations: Mapping[str, Lower]) -> Program:
    """Returns the program of a traced model, layer by layer.

    Args:
        output: The last call.
        layers: The function for each class of layers. Subclasses do not count as their parents:
            they may compute something else.
        operations: The function for each operation of `keras.ops`, by the name of its class.

    Raises:
        PackError: If a layer is of another class, does not compute in float32, or its function
            raises it.
    """
    steps, known = Steps(), {}
    for node in in_order(output):
        if node.layer is None:
            known[node] = steps.emit("input", node.name, (), node.shape)
            continue
        function = _rule(node, layers, operations)
        policy = getattr(node.layer, "dtype_policy", None)
        # By name: Keras's quantized types may compute in float32 too.
        if policy is not None and policy.name != "float32":
            raise PackError(
                f"Layer {node.name!r} must compute in float32 to be packed; build the model in "
                f"float32 and set its weights. Received: {policy.name}"
            )
        known[node] = function(steps, node, [known[one] for one in node.inputs])
    return Program(steps)


def _rule(node, layers, operations):
    kind = type(node.layer)
    if not isinstance(node.layer, keras.layers.Layer) and kind.__module__.startswith("keras."):
        if kind.__name__ in operations:
            return operations[kind.__name__]
        raise PackError(
            f"{node.name!r} cannot be packed: use a layer of `keras.layers` for it. Of `keras.ops` "
            f"only these can: {', '.join(sorted(operations))}. Received: {kind.__name__} of "
            "`keras.ops`"
        )
    if kind not in layers and isinstance(node.layer, keras.Model):
        raise unknown_layers(node.layer)
    if kind not in layers:
        raise PackError(
            f"Layer {node.name!r} cannot be packed. Expected one of "
            f"{', '.join(sorted({cls.__name__ for cls in layers}))}. Received: {kind.__name__}"
        )
    return layers[kind]
