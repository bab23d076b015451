"""Whether the ways to build a gradient agree in a model's own layers."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.smooth_task import frozen
from dann.autodiff import gradients
from dann.diagnostics.catalogue import ANY_MODEL, DIAGNOSTICS
from dann.diagnostics.instruments.layers import calls_of, is_floating
from dann.diagnostics.instruments.modes import in_mode, mode_of
from dann.diagnostics.instruments.vectors import to_numpy


@DIAGNOSTICS.register("parity", models=ANY_MODEL, quick=True, like_a_step=True, order=20)
def way_parity(model: keras.Layer, data: Any, *, mode: str | None = None) -> dict[str, float]:
    """Compares the ways in which a model's layers can build their gradients.

    Every layer with a `way` runs again, on its inputs in the model, with each way: `"override"`,
    `"stop_gradient"` and, on TensorFlow, `"op_override"`. The measurements are the largest
    differences from `"override"`: of the values and, for a random upstream gradient, of the
    gradients of the inputs and of the layer's own weights. A difference above rounding means that
    one of the ways has no effect where the model trains: its gradient is the plain derivative, or
    there is none.

    It takes one backward pass of each layer for each way, and none of the whole model. The layers
    are those of functional networks. The model does not change.

    The arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Returns:
        Differences by name; the largest over all layers are 0 if no layer has a `way`.

    Reference:
        - [Bengio et al., 2013](https://arxiv.org/abs/1308.3432), section 4, on gradients that are
          not derivatives.
    """
    mode = mode or mode_of(model)
    calls = [call for call in calls_of(model, data) if _has_a_way(call)]
    measured = {}
    for name in dict.fromkeys(call.name for call in calls):
        own = [_differences(call, mode) for call in calls if call.name == name]
        value, gradient = np.max(own, axis=0)
        measured[f"way_parity/{name}/value"] = float(value)
        measured[f"way_parity/{name}/gradient"] = float(gradient)
    for kind in ("value", "gradient"):
        of_layers = [v for name, v in measured.items() if name.endswith(f"/{kind}")]
        measured[f"way_parity/{kind}"] = max(of_layers, default=0.0)
    return measured


def _has_a_way(call):
    return isinstance(getattr(call.layer, "way", None), str) and is_floating(call.inputs)


def _differences(call, mode):
    estimator = getattr(call.layer, "estimator", None)
    ways = ("override", "stop_gradient", "op_override") if estimator is None else estimator.ways
    if keras.backend.backend() != "tensorflow":
        ways = [way for way in ways if way != "op_override"]
    (value, slopes), *others = (_run(call, way, mode) for way in ways)
    worst = np.zeros(2)
    for other, other_slopes in others:
        pairs = zip(slopes, other_slopes, strict=True)
        of_slopes = [np.max(np.abs(a - b), initial=0.0) for a, b in pairs]
        worst = np.maximum(worst, [np.max(np.abs(value - other), initial=0.0), max(of_slopes)])
    return worst


def _run(call, way, mode):
    """Returns the value and the gradients of a layer that is built in a way."""
    layer = copy_with(call.layer, way=way)
    weights = list(layer.trainable_variables)
    rng = np.random.default_rng(0)
    upstream = ops.convert_to_tensor(rng.normal(size=tuple(call.outputs.shape)), "float32")

    def outputs(inputs, *values):
        with frozen(layer, list(zip(weights, values, strict=True))):
            return ops.cast(layer(inputs), "float32")

    def both(*xs):
        slopes = gradients(lambda *xs: ops.sum(outputs(*xs) * upstream), list(xs))
        return outputs(*xs), *slopes

    xs = [call.inputs, *(ops.convert_to_tensor(weight.value) for weight in weights)]
    value, *slopes = in_mode(both, mode)(*xs)
    return to_numpy(value), [to_numpy(slope) for slope in slopes]


def copy_with(layer: keras.Layer, **attributes: Any) -> keras.Layer:
    """Returns a built layer with other attributes that shares its variables with the given one."""
    copied = object.__new__(type(layer))
    copied.__dict__.update(vars(layer) | attributes)
    return copied
