"""Follows the calls of layers in a Keras model, which add their steps to a packed program."""

import dataclasses
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import keras

from dann.deployment.folding import Program
from dann.deployment.runtime import Step


class PackError(ValueError):
    """A model, or a layer of it, cannot be packed."""


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a layer, or of an operation of `keras.ops`.

    Args:
        program: The steps so far.
        name: Name of the layer, after those of the models that it is nested in.
        layer: The layer or operation.
        inputs: Numbers of the steps that give its inputs.
        shape: Shape of its output, without the batch.
        arguments: What it is called with by place, flat.
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
        """Adds a step and returns its number; inputs and shape are the call's, unless given."""
        inputs, shape = inputs or tuple(self.inputs), list(shape or self.shape)
        return self.program.add(Step(op, self.name, inputs, shape, attributes or {}, arrays))

    def require(self, condition: Any, what: str, received: Any) -> None:
        """Raises `PackError` unless a condition holds: the layer must `what` to be packed."""
        if not condition:
            raise PackError(f"Layer {self.name!r} must {what} to be packed. Received: {received}")

    def activated(self, number: int, function: Callable) -> int:
        """Adds an activation, and returns the number of its output."""
        tensors = [keras.KerasTensor((None, *self.program.steps[number].shape))]
        return follow(self.program, function, tensors, [number], self.name)[0]


def follow(
    program: Program, function: Callable, arguments: Any, numbers: Sequence[int], name: str
) -> list[int]:
    """Adds what a function of symbolic tensors computes.

    Args:
        program: The steps so far.
        function: The `call` of a model, or an activation.
        arguments: Symbolic tensors, or lists or dicts of them, like those to call it with.
        numbers: Numbers of the steps that give these tensors.
        name: What goes before the names of its own layers.

    Returns:
        The numbers of the steps that give its outputs.
    """
    inputs: Any = keras.tree.map_structure(
        lambda one: keras.Input(batch_shape=one.shape, dtype=one.dtype), arguments
    )
    tensors = keras.tree.flatten(inputs)
    try:
        outputs = keras.tree.flatten(function(*inputs))
        # Its public `operations` do not tell which tensors each call gets.
        nodes = keras.Function(tensors, outputs)._nodes_by_depth
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        name = getattr(function, "__qualname__", name)
        line = traceback.extract_tb(error.__traceback__, 2)[-1].line
        raise PackError(
            f"{name} must call layers or `keras.ops` alone to be packed. On a `keras.Input` it "
            f"fails at `{line}`; write it with `keras.ops`: {error}"
        ) from error
    known = dict(zip(map(id, tensors), numbers, strict=True))
    for node in (node for depth in sorted(nodes, reverse=True) for node in nodes[depth]):
        if node.is_input:
            continue
        layer, arguments = node.operation, node.arguments
        own = layer.name if isinstance(layer, keras.Layer) else type(layer).__name__.lower()
        own = f"{name}/{own}".lstrip("/")
        inputs = [known[id(one)] for one in node.input_tensors]
        shape = fixed_shape(node.outputs[0].shape, own)
        call = Call(program, own, layer, inputs, shape, keras.tree.flatten(arguments.args))
        _check(call, arguments.kwargs)
        if isinstance(layer, keras.Model):
            found = follow(program, layer.call, arguments.args, inputs, own)
        else:
            found = [program.rules[type(layer).__name__](call)]
        known.update(zip(map(id, node.outputs), found, strict=True))
    return [known[id(one)] for one in outputs]


def _check(call, given):
    """Raises `PackError` for a layer that no rule knows, or that is not called plainly."""
    layer, kind = call.layer, type(call.layer)
    extra = [one for one in keras.tree.flatten(given) if one is not None and one is not False]
    call.require(not extra, "be called with its inputs alone, as at inference,", given)
    if isinstance(layer, keras.Model):
        return
    # A subclass may compute otherwise than its parent.
    ours = kind.__module__.split(".")[0] in ("dann", "keras")
    what = "be a `keras.Model`, which is followed, or stand as its layers in the network,"
    if ours:
        what = "be written with the layers and functions of the page Deployment"
    if "Separable" in kind.__name__:
        what = "be written with a depthwise convolution and a convolution of one pixel"
    call.require(ours and kind.__name__ in call.program.rules, what, kind.__name__)
    policy = getattr(layer, "dtype_policy", None)
    call.require(policy is None or policy.name == "float32", "compute in float32", policy)
    order, axis = getattr(layer, "data_format", None), getattr(layer, "axis", -1)
    call.require(order != "channels_first", "have data_format='channels_last'", order)
    last = {-1, len(call.program.steps[call.inputs[0]].shape)}
    call.require(last.issuperset(keras.tree.flatten(axis)), "act on the last axis", f"axis={axis}")


def fixed_shape(shape: Sequence[int | None], name: str) -> list[int]:
    """Returns a shape without the batch; raises `PackError` if it is not known."""
    if None in shape[1:]:
        raise PackError(f"Give `keras.Input` one size. Received: {tuple(shape)} at {name!r}")
    return [int(size or 0) for size in shape[1:]]
