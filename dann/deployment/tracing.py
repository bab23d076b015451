"""Traces the calls of layers in a Keras model, which add their steps to a packed program."""

import dataclasses
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import keras

from dann.deployment.folding import Program
from dann.deployment.runtime import Step


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
        shape: Shape of its output, without the batch.
        arguments: Its positional arguments, flattened.
    """

    program: Program
    name: str
    layer: Any
    inputs: Sequence[int]
    shape: Sequence[int]
    arguments: Sequence[Any]

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
        layer, arguments = node.operation, node.arguments
        is_layer = isinstance(layer, keras.Layer)
        path = f"{name}/{layer.name if is_layer else type(layer).__name__.lower()}".lstrip("/")
        sources = [step_numbers[id(tensor)] for tensor in node.input_tensors]
        shape = get_fixed_shape(node.outputs[0].shape, path)
        call = Call(program, path, layer, sources, shape, keras.tree.flatten(arguments.args))
        _check_arguments(call, arguments.kwargs)
        if isinstance(layer, keras.Model):
            results = trace_calls(program, layer.call, arguments.args, sources, path)
        else:
            results = [_get_rule(call)(call)]
        step_numbers.update(zip(map(id, node.outputs), results, strict=True))
    return [step_numbers[id(tensor)] for tensor in outputs]


def _check_arguments(call, keywords):
    """Raises `PackError` if a call has keyword arguments such as `training` or a mask."""
    values = keras.tree.flatten(keywords)
    are_unset = all(value is None or value is False for value in values)
    call.require(are_unset, "be called with only its inputs, as in inference", keywords)


def _get_rule(call):
    """Returns the rule of a layer; raises `PackError` if the layer cannot be packed."""
    layer, kind = call.layer, type(call.layer)
    # A subclass may compute something else than its parent, so it has no rule.
    requirement = "be a `keras.Model`, whose layers are packed, or a layer of Keras or `dann`"
    if kind.__module__.split(".")[0] in ("dann", "keras"):
        requirement = "be one of the layers and functions that the page Deployment lists"
    if isinstance(layer, keras.layers.SeparableConv1D | keras.layers.SeparableConv2D):
        requirement = "be replaced by a depthwise convolution and a convolution of size 1"
    rule = call.program.find_rule(layer)
    call.require(rule, requirement, kind.__name__)
    policy = getattr(layer, "dtype_policy", None)
    call.require(policy is None or policy.name == "float32", "compute in float32", policy)
    order, axis = getattr(layer, "data_format", None), getattr(layer, "axis", -1)
    call.require(order != "channels_first", "have data_format='channels_last'", order)
    last = {-1, len(call.program.steps[call.inputs[0]].shape)}
    call.require(last.issuperset(keras.tree.flatten(axis)), "act on the last axis", f"axis={axis}")
    return rule


def get_fixed_shape(shape: Sequence[int | None], name: str) -> list[int]:
    """Returns a shape without the batch; raises `PackError` if a size is unknown."""
    if None in shape[1:]:
        raise PackError(
            f"Expected a fixed size. Received: {tuple(shape)} at {name!r}. Give `keras.Input` a "
            "shape without None"
        )
    return [int(size or 0) for size in shape[1:]]
