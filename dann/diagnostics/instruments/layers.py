"""The layers of a network, and what goes into them."""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import parts_of
from dann.adaptation.networks import graph_of
from dann.adaptation.smooth_task import frozen
from dann.diagnostics.instruments.modes import as_tensors, inputs_of
from dann.diagnostics.instruments.vectors import to_numpy
from dann.layers import BinarySign


class Call(NamedTuple):
    """A layer in its network: its name, its inputs and its outputs."""

    name: str
    layer: Any
    inputs: Any
    outputs: Any


def leaves(model: keras.Layer) -> dict[str, keras.Layer]:
    """Returns the layers of a model that hold no other layers, however deep, once each, by name.

    A layer within another layer, not a model, has that one's name before its own:
    `"binary_dense/input_sign"`. A repeated name gets a number. A recurrent layer counts as a leaf.
    """
    found: dict[str, keras.Layer] = {}
    seen: set[int] = set()

    def visit(layer, prefix):
        if id(layer) in seen:
            return
        seen.add(id(layer))
        inner = list(layer._flatten_layers(include_self=False, recursive=False))
        if inner and not isinstance(layer, keras.layers.RNN):
            within = "" if isinstance(layer, keras.Model) else f"{prefix}{layer.name}/"
            for each in inner:
                visit(each, within)
            return
        name, count = f"{prefix}{layer.name}", 0
        while name in found:
            count += 1
            name = f"{prefix}{layer.name}#{count}"
        found[name] = layer

    visit(model, "")
    return found


def calls_of(model: Any, data: Any, values: Any = ()) -> list[Call]:
    """Returns the layers of a model with what goes into them in training.

    They are those of functional and sequential networks, also of networks within these, and the
    signs within binary layers, which see inputs or weights. What a layer of another kind holds, and
    layers that a network uses in several places, are left out. Of a model of `dann.adaptation` they
    are those of backbone and label head, and the reversal.

    Args:
        model: Keras model or layer.
        data: The batch.
        values: Pairs of a variable and the tensor that it reads as instead.
    """
    data = as_tensors(data)
    if not model.built:
        model(inputs_of(data))
    with frozen(model, values):
        if not isinstance(model, AdversarialModel):
            return _calls(model, inputs_of(data))
        parts = list(parts_of(model.augment(data[0], True)).values())
        if model.passes == "joint":
            parts = [keras.tree.map_structure(lambda *one: ops.concatenate(one), *parts)]
        found = []
        for part in parts:
            found += _calls(model.backbone, part)
            features = model.backbone(part, training=True)
            found += _calls(model.label_head, features)
            if model.reversal is not None:
                found += _calls(model.reversal, features)
        return found


def _calls(network, inputs):
    graph = graph_of(network)
    if graph is None:
        return _call(network, inputs, network(inputs, training=True))
    layers = [layer for layer in network.layers if has_one_place(layer)]
    if not layers:
        return []
    both = [*(layer.input for layer in layers), *(layer.output for layer in layers)]
    values = keras.Model(graph[0], both)(inputs, training=True)
    found = []
    for layer, before, after in zip(layers, values, values[len(layers) :], strict=False):
        inner = graph_of(layer) is not None
        found += _calls(layer, before) if inner else _call(layer, before, after)
    return found


def _call(layer, inputs, outputs):
    signs = [(layer.input_sign, inputs)] if getattr(layer, "input_sign", None) else []
    signs += [(layer.kernel_sign, layer.kernel)] if hasattr(layer, "kernel_sign") else []
    if not signs:
        return [Call(layer.name, layer, inputs, outputs)]
    pairs = [(sign, ops.convert_to_tensor(values)) for sign, values in signs]
    return [Call(f"{layer.name}/{sign.name}", sign, x, sign(x)) for sign, x in pairs]


def has_one_place(layer: keras.Layer) -> bool:
    """Whether a network uses a layer once, from one tensor to another."""
    try:
        single = [layer.input, layer.output]
    except (AttributeError, ValueError):  # it is called in several places
        return False
    is_input = isinstance(layer, keras.layers.InputLayer)
    return not is_input and keras.tree.flatten(single) == single


def is_binary(call: Call) -> bool:
    """Whether the layer is a `BinarySign`, or turns other numbers into -1 and +1 only."""
    if isinstance(call.layer, BinarySign):
        return True
    floating = is_floating(call.inputs) and is_floating(call.outputs)
    if not floating or tuple(call.inputs.shape) != tuple(call.outputs.shape):
        return False
    return _all_signs(to_numpy(call.outputs)) and not _all_signs(to_numpy(call.inputs))


def is_floating(tensor: Any) -> bool:
    """Whether it is a single tensor of a floating type, which gradients flow through."""
    return ops.is_tensor(tensor) and "float" in keras.backend.standardize_dtype(tensor.dtype)


def _all_signs(values):
    return values.size > 0 and bool(np.all(np.abs(values) == 1))
