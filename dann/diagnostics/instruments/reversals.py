"""Which layers of a model reverse gradients: by their role, their name and their behaviour."""

import re
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff import gradients
from dann.diagnostics.instruments.layer_calls import Call
from dann.diagnostics.instruments.modes import unchanged
from dann.diagnostics.instruments.passes import Walk, passes_on
from dann.diagnostics.instruments.vectors import cosine, to_numpy
from dann.layers import GradientReversal

_NAME = re.compile(r"revers|grl", re.IGNORECASE)


def find_reversals(model: keras.Layer, walk: Walk) -> list[Call]:
    """Returns the calls of reversals in one pass.

    A reversal is a layer that passes one tensor on unchanged and

    - is a `dann.layers.GradientReversal`, or the attribute `reversal` of the model, or
    - has `revers` or `grl` in the name of its class or in its own, and is not one of Keras' own, as
      a `Dropout` named `grl_dropout` is, or
    - turns the gradient around, whatever its name.

    Args:
        model: Keras model or layer.
        walk: The pass.
    """
    by_role = getattr(model, "reversal", None)
    return [
        call
        for call in walk.calls
        if passes_on(call)
        and (
            call.layer is by_role
            or isinstance(call.layer, GradientReversal)
            or _is_named(call.layer)
            or _turns_around(call)
        )
    ]


def _is_named(layer: Any) -> bool:
    """Whether a name says that the layer reverses, and somebody wrote it."""
    kind = type(layer)
    # Somebody wrote what a `Lambda` does, too.
    if kind.__module__.split(".")[0] == "keras" and kind is not keras.layers.Lambda:
        return False
    return any(_NAME.search(name) for name in (kind.__name__, layer.name))


def _turns_around(call: Call) -> bool:
    """Whether the layer's own gradient points against what flows back into it."""
    shape = tuple(call.inputs.shape)
    upstream = np.random.default_rng(0).normal(size=shape)
    weights = ops.cast(ops.convert_to_tensor(upstream, "float32"), call.inputs.dtype)
    with unchanged(call.layer):
        (gradient,) = gradients(lambda x: ops.sum(call.again(x) * weights), [call.inputs])
    return cosine([to_numpy(gradient)], [upstream]) < -0.5
