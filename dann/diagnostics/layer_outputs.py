"""Finds layers whose outputs are not finite, or zero for every example."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.networks import check_network, get_graph
from dann.adaptation.preserve_state import preserve_state
from dann.diagnostics.passes import DOMAINS, as_batch, is_floating, to_float64
from dann.diagnostics.straight_through_health import has_single

_SAMPLES = 16  # examples of each domain, because the outputs of all layers are in memory at once


def layer_outputs(model: Any, data: Any) -> dict[str, str]:
    """Finds the first layer with outputs that are not finite, and the first with dead units.

    A dead unit returns 0 for every example, as a unit with ReLU does after a step that was too
    large. It gets no gradient, so it does not recover. The first 16 examples of each domain are
    used, in inference.

    - `layers/not_finite`: name of the first layer with NaN or infinite outputs
    - `layers/dead_units`: the first layer with an activation function in which at least half of the
      units (positions of the last axis) are dead, such as `"14 of 16 in layer 'dense'"`

    Neither is present for a healthy network. A functional or sequential network is measured layer
    by layer, and any other network by its outputs.

    Args:
        model: Model of `dann.adaptation`, whose backbone is measured, or any Keras model or layer.
        data: One batch; see `dann.diagnostics.catalogue`.

    Returns:
        Names by measurement.

    Raises:
        TypeError: If `model` is neither a model nor a layer.

    Example:

    >>> import keras, numpy as np
    >>> from dann.diagnostics import layer_outputs
    >>> bias = keras.initializers.Constant(-99.0)
    >>> layer = keras.layers.Dense(2, "relu", bias_initializer=bias, name="hidden")
    >>> layer_outputs(keras.Sequential([keras.Input((3,)), layer]), np.ones((4, 3)))
    {'layers/dead_units': "2 of 2 in layer 'hidden'"}
    """
    data = as_batch(check_network("model", model), data)
    is_method = isinstance(model, AdversarialModel)
    network: Any = model.backbone if is_method else model
    x = data[0] if isinstance(data, tuple) else data
    parts = [x[domain] for domain in DOMAINS] if is_method else [x]
    inputs = keras.tree.map_structure(
        lambda *arrays: ops.concatenate([ops.convert_to_tensor(a[:_SAMPLES]) for a in arrays]),
        *parts,
    )
    if not network.built:
        network(inputs)
    with preserve_state(network):
        if graph := get_graph(network):
            layers = [layer for layer in network.layers if has_single(layer, "output")]
            monitor = keras.Model(graph[0], [layer.output for layer in layers])
            outputs = keras.tree.flatten(monitor(inputs, training=False))
        else:
            outputs = keras.tree.flatten(network(inputs))
            layers = [network] * len(outputs)
    measurements = {}
    for layer, tensor in zip(layers, outputs, strict=True):
        if not is_floating(tensor):
            continue
        values = to_float64(tensor)
        if not np.isfinite(values).all():
            measurements.setdefault("layers/not_finite", layer.name)
        is_dead = np.all(values == 0, axis=tuple(range(values.ndim - 1)))  # (units,)
        has_activation = hasattr(layer, "activation") or isinstance(layer, keras.layers.ReLU)
        if has_activation and is_dead.mean() >= 0.5:
            units = f"{is_dead.sum()} of {is_dead.size} in layer {layer.name!r}"
            measurements.setdefault("layers/dead_units", units)
    return measurements
