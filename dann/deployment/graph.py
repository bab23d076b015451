"""The layers of a Keras model as one graph, whatever models they are nested in."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras


class PackError(ValueError):
    """A model that cannot be packed, or a layer of it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """One call of a layer.

    Args:
        name: Name of the layer, after those of the models that it is nested in.
        layer: The layer; `None` for the input.
        inputs: The calls whose outputs it takes.
        shape: Shape of its output, without the batch.
    """

    name: str
    layer: Any
    inputs: Sequence["Node"]
    shape: tuple[int, ...]


def trace(model: keras.Model) -> Node:
    """Returns the last call of a functional or sequential model; what it needs hangs on it.

    Args:
        model: Model of one input and one output; nested models are looked into.

    Raises:
        PackError: If it is neither functional nor sequential, has several inputs or outputs, or an
            axis besides the batch has no fixed size.
    """
    if not _is_graph(model):
        raise PackError(
            "Only functional and sequential models can be packed, because their layers are known. "
            f"Received: {type(model).__name__} {model.name!r}"
        )
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise PackError(
            "A packed classifier has one input and one output. Received: "
            f"{len(model.inputs)} inputs, {len(model.outputs)} outputs of {model.name!r}"
        )
    return _last_call(model, "", [_input(model)])


def _is_graph(layer):
    if isinstance(layer, keras.Sequential):
        return layer.built
    return isinstance(layer, keras.Model) and isinstance(getattr(layer, "inputs", None), list)


def _input(model):
    return Node("input", None, (), _fixed_shape(model.inputs[0].shape, "input"))


def _last_call(model, prefix, arguments):
    if isinstance(model, keras.Sequential):
        (node,) = arguments
        for layer in model.layers:
            node = _call(layer, prefix, [node], layer.compute_output_shape((None, *node.shape)))
        return node
    calls = {id(tensor): node for tensor, node in zip(model.inputs, arguments, strict=True)}

    def call_of(tensor):
        if id(tensor) not in calls:
            history = tensor._keras_history
            layer = history.operation
            tensors = layer._inbound_nodes[history.node_index].input_tensors
            inputs = [call_of(one) for one in tensors]
            calls[id(tensor)] = _call(layer, prefix, inputs, tensor.shape)
        return calls[id(tensor)]

    return call_of(model.outputs[0])


def _call(layer, prefix, inputs, shape):
    name = prefix + layer.name
    if _is_graph(layer):
        return _last_call(layer, f"{name}/", inputs)
    if isinstance(layer, keras.layers.InputLayer):
        return inputs[0]
    return Node(name, layer, tuple(inputs), _fixed_shape(shape, name))


def _fixed_shape(shape, name):
    if any(size is None for size in shape[1:]):
        raise PackError(
            "A packed classifier takes inputs of one size; give it to `keras.Input`. Received: "
            f"{tuple(shape)} at {name!r}"
        )
    return tuple(int(size) for size in shape[1:])
