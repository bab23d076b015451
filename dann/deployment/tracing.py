"""Follows the calls of layers in a Keras model, which add their steps to a packed program."""

import dataclasses
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.deployment.folding import Program
from dann.deployment.runtime import Step


class PackError(ValueError):
    """A model, or a layer of it, cannot be packed."""


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a layer, or of an operation of `keras.ops`.

    Args:
        trace: What follows the model.
        name: Name of the layer, after those of the models that it is nested in.
        layer: The layer or operation.
        arguments: What it is called with by place, flat.
        inputs: Numbers of the steps that give its inputs.
        shape: Shape of its output, without the batch.
    """

    trace: "Trace"
    name: str
    layer: Any
    arguments: Sequence[Any]
    inputs: Sequence[int]
    shape: tuple[int, ...]

    def add(
        self,
        op: str,
        *inputs: int,
        kind: str = "float",
        attributes: Mapping[str, Any] | None = None,
        shape: Sequence[int] | None = None,
        **arrays: np.ndarray,
    ) -> int:
        """Adds a step and returns its number; its shape is that of the output, unless given."""
        shape = list(self.shape if shape is None else shape)
        step = Step(op, self.name, inputs, shape, kind, attributes or {}, arrays)
        return self.trace.program.add(step)

    def input_step(self) -> Step:
        """Returns the step that gives the first input."""
        return self.trace.program.steps[self.inputs[0]]

    def require(self, condition: Any, what: str, received: Any) -> None:
        """Raises `PackError` unless a condition holds: the layer must `what` to be packed."""
        if not condition:
            raise PackError(f"Layer {self.name!r} must {what} to be packed. Received: {received}")


class Trace:
    """The program of a model, made by its layers in the order of their calls.

    Args:
        rules: By the name of a class of Keras, its operations or `dann`, the function that adds the
            steps of a call and returns the number of the last.
        shape: Shape of the input, without the batch.
    """

    def __init__(self, rules: Mapping[str, Callable[[Call], int]], shape: Sequence[int]):
        self.rules = rules
        self.program = Program(shape)

    def follow(
        self,
        function: Callable,
        arguments: Any,
        numbers: Sequence[int],
        name: str,
        nested: bool = True,
    ) -> list[int]:
        """Adds what a function of symbolic tensors computes.

        Args:
            function: The `call` of a model, or an activation.
            arguments: Symbolic tensors, or lists or dicts of them, like those to call it with.
            numbers: Numbers of the steps that give these tensors.
            name: What to call it in the packed file.
            nested: Whether the names of its own layers follow that name.

        Returns:
            The numbers of the steps that give its outputs.
        """
        inputs: Any = keras.tree.map_structure(
            lambda one: keras.Input(batch_shape=one.shape, dtype=one.dtype), arguments
        )
        tensors = keras.tree.flatten(inputs)
        try:
            outputs = keras.tree.flatten(function(*inputs))
            nodes = keras.Function(tensors, outputs)._nodes_by_depth
        except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [one.line for one in frames if "keras" not in one.filename]
            raise PackError(
                f"Model {name!r} must call layers or `keras.ops` alone to be packed; on a "
                f"`keras.Input` it fails. Received: {lines[-1]}"
            ) from error
        known = dict(zip(map(id, tensors), numbers, strict=True))
        for node in (node for depth in sorted(nodes, reverse=True) for node in nodes[depth]):
            if not node.is_input:
                own = f"{name}/{node.operation.name}".lstrip("/") if nested else name
                found = self._called(node, own, [known[id(one)] for one in node.input_tensors])
                known.update(zip(map(id, node.outputs), found, strict=True))
        return [known[id(one)] for one in outputs]

    def _called(self, node, name, inputs):
        layer, arguments = node.operation, node.arguments
        given = {
            key: value
            for key, value in arguments.kwargs.items()
            if any(one is not None and one is not False for one in keras.tree.flatten(value))
        }
        if given:
            raise PackError(
                f"Layer {name!r} must be called with its inputs alone to be packed, because a "
                f"packed file computes as at inference. Received: {given}"
            )
        if isinstance(layer, keras.Model):
            return self.follow(layer.call, arguments.args, inputs, name)
        shape = fixed_shape(node.outputs[0].shape, name)
        call = Call(self, name, layer, keras.tree.flatten(arguments.args), inputs, shape)
        policy = getattr(layer, "dtype_policy", None)
        call.require(policy is None or policy.name == "float32", "compute in float32", policy)
        return [self._rule(call)(call)]

    def _rule(self, call):
        kind = type(call.layer)
        # A subclass may compute otherwise than its parent.
        if kind.__module__.partition(".")[0] in ("keras", "dann") and kind.__name__ in self.rules:
            return self.rules[kind.__name__]
        raise PackError(
            f"Layer {call.name!r} computes {kind.__name__}, which cannot be packed. Write it with "
            f"relu, relu6, hard_tanh, sigmoid, tanh, softmax, LeakyReLU or PReLU, or with the "
            "layers in docs/deployment.md"
        )


def fixed_shape(shape: Sequence[int | None], name: str) -> tuple[int, ...]:
    """Returns a shape without the batch; raises `PackError` if it is not known."""
    if None in shape[1:]:
        raise PackError(
            "A packed classifier takes inputs of one size; give it to `keras.Input`. Received: "
            f"{tuple(shape)} at {name!r}"
        )
    return tuple(int(size or 0) for size in shape[1:])
