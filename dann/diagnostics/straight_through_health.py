"""Measures whether gradients pass the binary layers of a model."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import select_parts
from dann.adaptation.networks import check_network, get_graph
from dann.adaptation.preserve_state import preserve_state
from dann.autodiff import gradients
from dann.diagnostics.passes import as_batch, as_tensors, to_float64
from dann.layers import BinarySign


def straight_through_health(model: keras.Layer, data: Any) -> dict[str, float]:
    """Measures how much of the gradient passes the binary layers of a model.

    It measures every `dann.layers.BinarySign` of functional and sequential networks, also the signs
    of the inputs and of the weights in binary layers, on the values of a training step:

    - `binary/<layer>/pass_rate`: fraction of the numbers whose gradient passes; for normal inputs
      of standard deviation `d` and the estimator `htanh` it is `erf(1 / (d sqrt 2))`
    - `binary/<layer>/deviation`: standard deviation of these numbers

    Layers that a network calls several times are skipped. The model does not change.

    Args:
        model: Model of `dann.adaptation`, or any Keras model or layer.
        data: One batch, as in every diagnostic.

    Returns:
        Measurements by name; none if no layer is binary.

    Raises:
        TypeError: If `model` is neither a model nor a layer.

    Example:

    >>> import keras
    >>> from dann.diagnostics import straight_through_health
    >>> from dann.layers import BinarySign
    >>> inputs = keras.ops.array([[0.5, -3.0]])
    >>> straight_through_health(BinarySign(name="sign"), inputs)["binary/sign/pass_rate"]
    0.5

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 1.3, for saturation.
    """
    data = as_tensors(as_batch(check_network("model", model), data))
    x = data[0] if isinstance(data, tuple) else data
    if not model.built:
        model(x)
    passes, values = {}, {}
    with preserve_state(model):
        is_method = isinstance(model, AdversarialModel)
        signs = _find_method_signs(model, x) if is_method else _find_signs(model, x)
        for name, sign, inputs in signs:
            (gradient,) = gradients(lambda tensor, sign=sign: ops.sum(sign(tensor)), [inputs])
            passes.setdefault(name, []).append(to_float64(gradient).ravel() != 0)
            values.setdefault(name, []).append(to_float64(inputs).ravel())
    measurements = {}
    for name in passes:
        measurements[f"binary/{name}/pass_rate"] = float(np.concatenate(passes[name]).mean())
        measurements[f"binary/{name}/deviation"] = float(np.concatenate(values[name]).std())
    return measurements


def _find_method_signs(model, x):
    batches = list(select_parts(model.augment(x, True)).values())  # one per domain
    if model.joint_forward:
        batches = [keras.tree.map_structure(lambda *tensors: ops.concatenate(tensors), *batches)]
    signs = []
    for inputs in batches:
        signs += _find_signs(model.backbone, inputs)
        signs += _find_signs(model.label_head, model.backbone(inputs, training=True))
    return signs


def _find_signs(network, inputs):
    """Returns the name, the layer and the inputs of each sign in a network."""
    graph = get_graph(network)
    if graph is None:
        if isinstance(network, BinarySign):
            return [(network.name, network, inputs)]
        signs = [(getattr(network, "input_sign", None), inputs)]
        signs += [(network.kernel_sign, network.kernel)] if hasattr(network, "kernel_sign") else []
        return [
            (f"{network.name}/{sign.name}", sign, ops.convert_to_tensor(tensor))
            for sign, tensor in signs
            if sign
        ]
    layers = [layer for layer in network.layers if has_single(layer, "input", "output")]
    if not layers:
        return []
    tensors = keras.Model(graph[0], [layer.input for layer in layers])(inputs, training=True)
    pairs = zip(layers, keras.tree.flatten(tensors), strict=True)
    return [sign for layer, tensor in pairs for sign in _find_signs(layer, tensor)]


def has_single(layer: keras.Layer, *sides: str) -> bool:
    """Returns whether a network calls a layer once, with one tensor as its `input` or `output`."""
    try:
        tensors = [getattr(layer, side) for side in sides]
    except (AttributeError, ValueError):  # the network calls the layer several times
        return False
    is_input = isinstance(layer, keras.layers.InputLayer)
    return not is_input and keras.tree.flatten(tensors) == tensors
