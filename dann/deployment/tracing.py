"""Traces the calls of layers in a Keras model, which add their steps to a packed program."""

import dataclasses
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from dann.deployment.folding import Program
from dann.deployment.runtime import Step
from dann.gradients.estimators import Estimator
from dann.layers import BinarySign

# Activations that Keras cannot call on symbolic tensors, as functions that it can.
_SYMBOLIC_ACTIVATIONS = {
    keras.activations.hard_silu: keras.ops.hard_silu,
    keras.activations.mish: lambda x: x * keras.ops.tanh(keras.ops.softplus(x)),
    keras.activations.sparsemax: keras.ops.sparsemax,
}


class PackError(ValueError):
    """Raised if a model, or one of its layers, cannot be packed."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a layer, or of an operation of `keras.ops`.

    Args:
        program: The steps so far.
        name: Name of the layer, preceded by the names of the models that contain it.
        layer: The layer or operation.
        inputs: Numbers of the steps that compute its inputs.
        shapes: Shapes of its outputs, without the batch.
        arguments: Its positional arguments.
        keywords: Its keyword arguments.
    """

    program: Program
    name: str
    layer: Any
    inputs: Sequence[int]
    shapes: Sequence[Sequence[int]]
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]

    @property
    def shape(self) -> Sequence[int]:
        """Shape of the first output, without the batch."""
        return self.shapes[0]

    @property
    def input_shapes(self) -> list[Sequence[int]]:
        """Shapes of the inputs, without the batch."""
        return [self.program.steps[source].shape for source in self.inputs]

    def add(
        self, op: str, *inputs: int, attributes: Any = None, shape: Any = None, **arrays: Any
    ) -> int:
        """Adds a step and returns its number. The inputs and the shape default to the call's."""
        inputs, shape = inputs or tuple(self.inputs), list(shape or self.shape)
        return self.program.add(Step(op, self.name, inputs, shape, attributes or {}, arrays))

    def require(self, condition: Any, requirement: str, received: Any) -> None:
        """Raises `PackError` unless a condition holds: "Expected layer ... to `requirement`"."""
        if not condition:
            raise PackError(f"Expected layer {self.name!r} to {requirement}. Received: {received}")

    def add_activation(self, number: int, function: Callable) -> int:
        """Adds an activation of a step's output, and returns the number of the last step."""
        if isinstance(function, Estimator):  # it cannot be called on symbolic tensors
            function = BinarySign(estimator=function)
        function = _SYMBOLIC_ACTIVATIONS.get(function) or function
        tensors = [keras.KerasTensor((None, *self.program.steps[number].shape))]
        return trace_calls(self.program, function, tensors, [number], self.name)[0]


def trace_calls(
    program: Program, function: Callable, arguments: Any, numbers: Sequence[int], name: str
) -> list[int]:
    """Adds the steps of a function of symbolic tensors.

    Args:
        program: The steps so far.
        function: The `call` of a model, or an activation.
        arguments: Symbolic tensors, or lists or dicts of them, with the shapes and dtypes of the
            arguments of the function.
        numbers: Numbers of the steps that compute these tensors.
        name: Prefix of the names of the function's layers.

    Returns:
        The numbers of the steps that compute its outputs.

    Raises:
        PackError: If the function or one of its layers cannot be packed.
    """
    inputs: Any = keras.tree.map_structure(
        lambda tensor: keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype), arguments
    )
    tensors = keras.tree.flatten(inputs)
    try:
        outputs = keras.tree.flatten(function(*inputs))
        # The public `operations` do not show which tensors each call receives.
        nodes = keras.Function(tensors, outputs)._nodes_by_depth
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        name = getattr(function, "__qualname__", name)
        line = traceback.extract_tb(error.__traceback__, 2)[-1].line
        raise PackError(
            f"Expected {name} to call only layers and `keras.ops`. Received: an error on a "
            f"`keras.Input` at `{line}`: {error}. Write the line with `keras.ops`"
        ) from error
    step_numbers = dict(zip(map(id, tensors), numbers, strict=True))
    for node in (node for depth in sorted(nodes, reverse=True) for node in nodes[depth]):
        if node.is_input:
            continue
        layer, is_layer = node.operation, isinstance(node.operation, keras.Layer)
        path = f"{name}/{layer.name if is_layer else type(layer).__name__.lower()}".lstrip("/")
        sources = [step_numbers[id(tensor)] for tensor in node.input_tensors]
        shapes = [tensor.shape[1:] for tensor in node.outputs]
        arguments = node.arguments
        call = Call(program, path, layer, sources, shapes, arguments.args, arguments.kwargs)
        results = program.translate(call)
        step_numbers.update(zip(map(id, node.outputs), results, strict=True))
    return [step_numbers[id(tensor)] for tensor in outputs]
