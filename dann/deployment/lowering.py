"""The layers of a Keras model as the steps of a program."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dann.deployment.graph import Node, PackError
from dann.deployment.program import Program, Step

# A layer's steps: given the steps so far, the call and the numbers of its inputs' steps.
Lower = Callable[["Steps", Node, Sequence[int]], int]


class Steps(list[Step]):
    """The steps of a program while it is being made."""

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
        """Adds a step and returns its number; arrays that are `None` are left out."""
        kept = {key: array for key, array in arrays.items() if array is not None}
        self.append(Step(op, name, list(inputs), list(shape), kind, attributes or {}, kept))
        return len(self) - 1


def lower(output: Node, layers: Mapping[type, Lower]) -> Program:
    """Returns the program of a traced model, every layer by itself.

    Args:
        output: The last call.
        layers: How each class of layers becomes steps. Subclasses do not count as their parents:
            they may compute something else.

    Raises:
        PackError: If a layer is of another class, does not compute in float32, or is refused by
            what lowers it.
    """
    steps, known = Steps(), {}
    for node in _in_order(output):
        if node.layer is None:
            known[node] = steps.emit("input", node.name, (), node.shape)
            continue
        function = layers.get(type(node.layer))
        if function is None:
            raise PackError(
                f"Layer {node.name!r} cannot be packed. Expected one of "
                f"{', '.join(sorted(cls.__name__ for cls in layers))}. "
                f"Received: {type(node.layer).__name__}"
            )
        policy = getattr(node.layer, "dtype_policy", None)
        if policy is not None and policy.compute_dtype != "float32":
            raise PackError(
                f"Layer {node.name!r} must compute in float32 to be packed; build the model with "
                f"that policy and set its weights. Received: {policy.name}"
            )
        known[node] = function(steps, node, [known[one] for one in node.inputs])
    return Program(steps)


def _in_order(output):
    """The calls that `output` needs, each after its inputs."""
    order, seen, waiting = [], set(), [output]
    while waiting:
        node = waiting[-1]
        missing = [one for one in node.inputs if one not in seen]
        if missing:
            waiting.extend(reversed(missing))
            continue
        waiting.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
    return order
