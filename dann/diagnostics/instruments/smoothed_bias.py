"""How a gradient that is not the derivative compares with the derivative of a smoothed loss."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.autodiff import gradients
from dann.diagnostics.instruments.backward_pass import random_sum
from dann.diagnostics.instruments.layer_calls import Call, around_layers, inputs_first
from dann.diagnostics.instruments.losses import features_of, loss_terms, trains_backbone
from dann.diagnostics.instruments.modes import in_mode, inputs_of, run_in_training, unchanged
from dann.diagnostics.instruments.vectors import cosine, norm, to_numpy

WIDTH = 0.3  # of the smoothing, as a share of the inputs' deviation


def smoothed_bias(
    model: keras.Layer, data: Any, calls: list[Call], pairs: int, mode: str, seed: int
) -> dict[str, float]:
    """Compares the gradient of a shift of a layer's inputs with that of the smoothed loss.

    Args:
        model: Keras model or layer.
        data: A batch of tensors.
        calls: The layer's calls in a pass over it.
        pairs: How many shifts, each with its opposite.
        mode: Where it runs; see `dann.diagnostics.instruments.modes.in_mode`.
        seed: Seed of the shifts.

    Returns:
        `bias_cosine`, `bias_length` and `bias_ceiling`, as `straight_through_health` defines them;
        none if the layer's inputs are all alike.
    """
    units = int(calls[0].inputs.shape[-1])
    width = WIDTH * float(np.concatenate([to_numpy(c.inputs).ravel() for c in calls]).std())
    if width == 0:
        return {}
    loss = _loss_of_shift(model, data, calls[0].layer)
    zero = ops.zeros((units,), "float32")
    (slope,) = in_mode(lambda shift: gradients(loss, [shift]), mode)(zero)
    given = to_numpy(slope)
    directions = np.random.default_rng(seed).normal(size=(pairs, units))
    compiled = in_mode(loss, mode)
    changes = [_change(compiled, width * direction) for direction in directions]
    rates = directions * np.array(changes)[:, None] / (2 * width)  # (pairs, units)
    smoothed = rates.mean(axis=0)
    agreement = cosine([rates[::2].mean(axis=0)], [rates[1::2].mean(axis=0)]) if pairs > 1 else 0.0
    length = norm([smoothed])
    return {
        "bias_cosine": cosine([given], [smoothed]),
        "bias_length": norm([given]) / length if length != 0 else 0.0,
        "bias_ceiling": math.sqrt(2 * agreement / (1 + agreement)) if agreement > 0 else 0.0,
    }


def _change(loss, shift):
    above, below = (
        float(loss(ops.convert_to_tensor(side * shift, "float32"))) for side in (1.0, -1.0)
    )
    return above - below


def _loss_of_shift(model, data, layer) -> Callable[[Any], Any]:
    """Returns the loss as a function of a shift of all inputs of a layer."""

    def loss(shift):
        def around(called, call, args, kwargs):
            if called is not layer:
                return call(*args, **kwargs)
            inputs, args, kwargs = inputs_first(layer, args, kwargs)
            return call(inputs + ops.cast(shift, inputs.dtype), *args, **kwargs)

        with unchanged(model), around_layers(around):
            if not isinstance(model, AdversarialModel):
                return random_sum(run_in_training(model, inputs_of(data)))
            training = trains_backbone(model)
            features = features_of(model, data[0], training)
            return loss_terms(model, data, features, training)[0]

    return loss
