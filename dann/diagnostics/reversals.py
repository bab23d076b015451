"""Which layers of a model reverse gradients, by their role, their name and their behaviour."""

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff import gradients
from dann.diagnostics.taps import Call, cosine, is_floating, leaves, record_calls, to_numpy
from dann.layers import GradientReversal

ROUNDING = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}
_NAME = re.compile(r"revers|grl", re.IGNORECASE)


def find_reversals(model: keras.Layer, run: Callable[[], Any]) -> tuple[list[Call], list[Any]]:
    """Returns the calls of reversals in one pass, and the layers in the order of their first call.

    A reversal is a layer that passes one tensor on unchanged and

    - is a `dann.layers.GradientReversal`, or the attribute `reversal` of the model, or
    - has `revers` or `grl` in the name of its class or in its own, and is none of Keras' own, as
      a `Dropout` named `grl_dropout` is, or
    - turns the gradient around, whatever it is called.

    Args:
        model: Keras model or layer.
        run: Runs it once, eagerly.
    """
    by_role = getattr(model, "reversal", None)
    order: dict[int, Any] = {}

    def keep(call: Call) -> bool:
        layer = call.layer
        order.setdefault(id(layer), layer)
        if not passes_on(call):
            return False
        meant = layer is by_role or isinstance(layer, GradientReversal)
        return meant or _is_named(layer) or turns_around(call)

    calls = record_calls(leaves(model), run, keep)
    return calls, list(order.values())


def _is_named(layer: Any) -> bool:
    """Whether a name says that the layer, which somebody wrote, reverses."""
    kind = type(layer)
    # What a `Lambda` does was written by somebody too.
    if kind.__module__.split(".")[0] == "keras" and kind is not keras.layers.Lambda:
        return False
    return any(_NAME.search(name) for name in (kind.__name__, layer.name))


def passes_on(call: Call) -> bool:
    """Whether what came out of a call is what went in, but for rounding."""
    if not (is_floating(call.inputs) and is_floating(call.outputs)):
        return False
    if tuple(call.inputs.shape) != tuple(call.outputs.shape):
        return False
    before, after = to_numpy(call.inputs), to_numpy(call.outputs)
    # A reversal by stop_gradient may round twice.
    close = 4 * ROUNDING[keras.backend.standardize_dtype(call.inputs.dtype)]
    size = np.max(np.abs(before), initial=0.0, where=np.isfinite(before))
    return np.allclose(before, after, rtol=close, atol=close * size, equal_nan=True)


def turns_around(call: Call) -> bool:
    """Whether the layer's own gradient points against what flows back into it."""
    shape = tuple(call.inputs.shape)
    upstream = np.random.default_rng(0).normal(size=shape)
    weights = ops.cast(ops.convert_to_tensor(upstream, "float32"), call.inputs.dtype)
    (gradient,) = gradients(lambda x: ops.sum(call.again(x) * weights), [call.inputs])
    return cosine([to_numpy(gradient)], [upstream]) < -0.5
