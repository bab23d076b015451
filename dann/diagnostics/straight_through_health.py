"""Whether gradients still pass the binary layers of a model."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import select_parts
from dann.adaptation.networks import get_graph
from dann.adaptation.preserve_state import preserve_state
from dann.autodiff import gradients
from dann.diagnostics.passes import as_tensors, to_numpy
from dann.layers import BinarySign


def straight_through_health(model: keras.Layer, data: Any) -> dict[str, float]:
    """Measures what becomes of gradients at every layer that makes numbers binary.

    It measures every `dann.layers.BinarySign`, also within binary layers, where it sees inputs or
    weights, in functional and sequential networks, on the values that reach it in training:

    - `binary/<layer>/pass_rate`: share of the numbers whose gradient is passed on; for normal inputs
      of deviation `d` and the estimator `clip` it is `erf(1 / (d sqrt 2))`
    - `binary/<layer>/deviation`: standard deviation of these numbers

    Layers that a network uses in several places are left out. The model does not change. The
    arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Returns:
        Measurements by name; none if no layer is binary.

    Example:

    >>> import keras
    >>> from dann.diagnostics import straight_through_health
    >>> from dann.layers import BinarySign
    >>> found = straight_through_health(BinarySign(name="sign"), keras.ops.array([[0.5, -3.0]]))
    >>> found["binary/sign/pass_rate"]
    0.5

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 1.3, for saturation.
    """
    if not isinstance(model, keras.Layer):
        raise TypeError(f"Binary layers are those of a model. Received: {type(model).__name__}")
    data = as_tensors(data)
    x = data[0] if isinstance(data, tuple) else data
    if not model.built:
        model(x)
    with preserve_state(model):
        signs = _of_pair(model, x) if isinstance(model, AdversarialModel) else _signs(model, x)
        measured: dict[str, float] = {}
        for name in dict.fromkeys(name for name, _, _ in signs):
            own = [(sign, inputs) for other, sign, inputs in signs if other == name]
            passes = np.concatenate([_passes(*one) for one in own])
            inputs = np.concatenate([to_numpy(one) for _, one in own])
            measured[f"binary/{name}/pass_rate"] = float(passes.mean())
            measured[f"binary/{name}/deviation"] = float(inputs.std())
    return measured


def _of_pair(model, x):
    parts = list(select_parts(model.augment(x, True)).values())
    if model.joint_forward:
        parts = [keras.tree.map_structure(lambda *one: ops.concatenate(one), *parts)]
    found = []
    for part in parts:
        found += _signs(model.backbone, part)
        found += _signs(model.label_head, model.backbone(part, training=True))
    return found


def _signs(network, inputs):
    """Returns name, layer and inputs of each sign in a network."""
    graph = get_graph(network)
    if graph is None:
        return _signs_of_layer(network, inputs)
    layers = [layer for layer in network.layers if has_single(layer, "input", "output")]
    if not layers:
        return []
    reached = keras.Model(graph[0], [layer.input for layer in layers])(inputs, training=True)
    pairs = zip(layers, keras.tree.flatten(reached), strict=True)
    return [found for layer, given in pairs for found in _signs(layer, given)]


def has_single(layer: keras.Layer, *sides: str) -> bool:
    """Whether a network uses a layer once, with a single tensor as its `input` or `output`."""
    try:
        tensors = [getattr(layer, side) for side in sides]
    except (AttributeError, ValueError):  # it is called in several places
        return False
    is_input = isinstance(layer, keras.layers.InputLayer)
    return not is_input and keras.tree.flatten(tensors) == tensors


def _signs_of_layer(layer, inputs):
    if isinstance(layer, BinarySign):
        return [(layer.name, layer, inputs)]
    signs = [(layer.input_sign, inputs)] if getattr(layer, "input_sign", None) else []
    signs += [(layer.kernel_sign, layer.kernel)] if hasattr(layer, "kernel_sign") else []
    return [(f"{layer.name}/{sign.name}", sign, ops.convert_to_tensor(x)) for sign, x in signs]


def _passes(sign, inputs):
    """Returns where a gradient of ones gets through."""
    (slope,) = gradients(lambda x: ops.sum(sign(x)), [inputs])
    return to_numpy(slope).ravel() != 0
