"""Whether the ways to build a gradient agree in a model's own layers."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff import gradients
from dann.diagnostics.modes import as_tensors, build, in_mode, inputs_of, mode_of, unchanged
from dann.diagnostics.taps import (
    Call,
    is_floating,
    leaves,
    record_calls,
    replaced,
    run_in_training,
    to_numpy,
)


def way_parity(model: keras.Layer, data: Any, *, mode: str | None = None) -> dict[str, float]:
    """Compares the ways in which a model's layers can build their gradients.

    Every layer with a `way` runs again, on what it gets in the model, by each way: `"override"`,
    `"stop_gradient"` and, on TensorFlow, `"op_override"`. With values `y_w` and, for a random
    upstream gradient, gradients `g_w` with respect to the inputs and the layer's own weights,

    - `way_parity/<layer>/value = max |y_w - y_override|` over numbers and ways
    - `way_parity/<layer>/gradient = max |g_w - g_override|`
    - `way_parity/value`, `way_parity/gradient`: the largest of all layers

    Healthy: 0, or rounding. Anything else means that one of the ways is not in force where the
    model trains, and that its gradient is the derivative, or nothing.

    No pass of the model backward; one a way and layer. Nothing of the model changes.

    Args:
        model: Keras model or layer.
        data: One batch `({"source": xs, "target": xt}, ys)` of a `dann` model; of another, its
            inputs, alone or with labels, which are not looked at.
        mode: `"eager"`, `"graph"` or `"xla"`. Defaults to the one in which `fit` runs the model.

    Returns:
        Differences by name; those over all layers are 0 where none has a `way`.

    Reference:
        - [Bengio et al., 2013](https://arxiv.org/abs/1308.3432), section 4, on gradients that are
          not derivatives.
    """
    mode = mode or mode_of(model)
    calls = calls_with_a_way(model, as_tensors(data))
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


def calls_with_a_way(model: keras.Layer, data: Any) -> list[Call]:
    """Returns the calls, in one pass over a batch of tensors, of layers that have a `way`."""
    inputs = inputs_of(data)
    build(model, inputs)
    layers = {
        name: layer
        for name, layer in leaves(model).items()
        if isinstance(getattr(layer, "way", None), str)
    }
    with unchanged(model):
        return record_calls(
            layers,
            lambda: run_in_training(model, inputs),
            lambda call: is_floating(call.inputs),
        )


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
    """Value of a layer, and its gradients, when built in a way."""
    layer = call.layer
    weights = list(layer.trainable_variables)
    rng = np.random.default_rng(0)
    upstream = ops.convert_to_tensor(rng.normal(size=tuple(call.outputs.shape)), "float32")

    def outputs(inputs, *values):
        with unchanged(layer, list(zip(weights, values, strict=True))):
            return ops.cast(call.again(inputs), "float32")

    def both(*xs):
        slopes = gradients(lambda *xs: ops.sum(outputs(*xs) * upstream), list(xs))
        return outputs(*xs), *slopes

    xs = [call.inputs, *(ops.convert_to_tensor(weight.value) for weight in weights)]
    with replaced([(layer, "way", way)]):
        value, *slopes = in_mode(both, mode)(*xs)
    return to_numpy(value), [to_numpy(slope) for slope in slopes]
