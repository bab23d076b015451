"""A reversal anywhere in a Keras model, measured by the gradients of the weights."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.networks import get_graph
from dann.adaptation.preserve_state import preserve_state
from dann.autodiff import gradients
from dann.diagnostics.passes import as_vector, in_mode, is_floating, to_float64, values_match
from dann.diagnostics.reversal_state import ReversalGradients, measure_reversal, rises_later
from dann.layers import GradientReversal

_SAMPLES = 16  # examples for a functional model, whose gradients are computed several times
_NOTHING = 1e-5  # share of the largest gradient below which a weight has none


def find_reversals(model: Any) -> list[GradientReversal]:
    """Returns the reversals among the layers of a model, nested ones too, each once."""
    layers = dict.fromkeys(model._flatten_layers())  # Keras has no public name for this list
    return [layer for layer in layers if isinstance(layer, GradientReversal)]


def measure_model(
    model: Any, data: Any, layer: keras.Layer | None, strength: float | None, mode: str
) -> dict[str, Any]:
    """Returns the measurements `reversal/...` of a Keras model, as `certify` does.

    The gradients of the weights are computed three times: with the reversal, with the identity in
    its place, and with `stop_gradient` in its place. The first minus the third is the gradient
    through the reversal, and the second minus the third is the same gradient without the reversal.
    If several outputs come from the reversal, the first one with a fault decides.

    Args:
        model: Keras model.
        data: Inputs of the model, tensors. A functional model gets the first 16 examples.
        layer: Layer of a functional model that reverses. Defaults to `None`: each
            `GradientReversal`.
        strength: Expected strength. Defaults to `None`: what a `GradientReversal` reports.
        mode: Where gradients are computed.
    """
    graph = get_graph(model)
    if graph and all(tensor.shape[0] is None for tensor in keras.tree.flatten(graph[0])):
        data = keras.tree.map_structure(lambda tensor: tensor[:_SAMPLES], data)
    outputs = model(data)  # builds a subclassed model
    dann_reversals = find_reversals(model)
    reversals = dann_reversals if layer is None else [layer]
    is_known = all(isinstance(reversal, GradientReversal) for reversal in reversals)
    if not reversals:
        return {"reversal/state": "not found"}
    if is_known:
        reported = {float(to_float64(reversal.strength)) for reversal in reversals}
        strength = reported.pop() if strength is None and len(reported) == 1 else strength
        state, call = None, lambda blend: model(data)
    else:
        state, call = _blend_layer(model, data, layer)
    trainable = model.trainable_variables
    excluded = {
        id(weight) for part in (trainable, *(r.weights for r in dann_reversals)) for weight in part
    }
    frozen = [w for w in model.weights if is_floating(w.value) and id(w) not in excluded]
    if state or not (trainable or frozen):
        return {"reversal/state": state or "detached"}
    # Settings are the factors of `_blend_layer`, then the strengths of all `GradientReversal`
    # layers. Each of these is the identity at a strength of -1 and detaches at 0.
    strengths = [float(to_float64(reversal.strength)) for reversal in dann_reversals]
    current, identity = [0.0, 1.0, *strengths], [1.0, 0.0, *[-1.0] * len(dann_reversals)]

    def detach(settings):
        pairs = zip(dann_reversals, settings[2:], strict=True)
        return [0.0, 0.0, *(0.0 if layer in reversals else number for layer, number in pairs)]

    def run(settings):
        for reversal, number in zip(dann_reversals, settings[2:], strict=True):
            reversal.strength.assign(number)  # within a stateless scope
        return keras.tree.flatten(call(settings[:2]))

    flat_outputs = keras.tree.flatten(outputs)
    gradients_at = _compile_gradients(model, run, len(flat_outputs), [*trainable, *frozen], mode)
    # Gradients `(outputs, numbers in all weights)`, with the trainable weights first. `outside`
    # does not pass the reversal. For `identity_...`, the identity replaces all reversals.
    outside = gradients_at(detach(current))
    is_same = detach(current) == detach(identity)
    identity_outside = outside if is_same else gradients_at(detach(identity))
    identity_total = gradients_at(identity)
    # The differences are the gradients that pass the reversal, and those without its change.
    reversed_gradients = gradients_at(current) - outside
    identity_gradients = identity_total - identity_outside
    has_reversed_gradient = _find_weights_with_gradient(identity_gradients, trainable)
    has_bypass_gradient = _find_weights_with_gradient(outside, trainable)
    is_reversed = has_reversed_gradient.any(axis=1)
    num_trainable = sum(int(np.prod(weight.shape)) for weight in trainable)
    reversed_part, identity_part, outside_part = (
        rows[:, :num_trainable] for rows in (reversed_gradients, identity_gradients, outside)
    )
    if not np.isfinite(np.stack([reversed_part, identity_part, outside_part])).all():
        return {"reversal/state": "not finite"}
    if not is_reversed.any():
        state = _find_obstacle(identity_gradients, identity_total, flat_outputs)
        return {"reversal/state": state, "reversal/calls": float(len(reversals))}
    options = {"calls": len(reversals), "strength": strength}
    options["rises"] = is_known and rises_later(reversals[0], False)
    per_output = [
        measure_reversal(
            ReversalGradients(reversed_part[i]), ReversalGradients(identity_part[i]), **options
        )
        for i in np.flatnonzero(is_reversed)
    ]
    faulty = [row for row in per_output if row["reversal/state"] != "working"]
    measurements = (faulty or per_output)[0] | _describe_outputs(model, outputs, is_reversed)
    state = measurements["reversal/state"]
    if state in ("working", "wrong strength"):
        fault = _find_fault(has_reversed_gradient, has_bypass_gradient, is_reversed)
        measurements["reversal/state"] = fault or state
    elif state == "wrong sign" and dann_reversals and min(strengths) > 0:
        # One layer is called twice, or the layer is in a chain with another reversal.
        measurements["reversal/state"] = "applied twice"
    return measurements


def _blend_layer(model, data, layer) -> tuple[str | None, Any]:
    """Returns a fault of a layer, if any, and a function from settings to the model's outputs.

    With the inputs `x` and the outputs `y` of the layer, the rest of the model gets the values `x`
    with the gradient `a dx + b dy` for the settings `(a, b)`.
    """
    graph = get_graph(model)
    if graph is None:
        return "unknown", None
    before = keras.Model(graph[0], layer.input)
    # A `keras.Model` from an inner tensor would add nodes to the user's layers.
    after = keras.Function(keras.tree.flatten([graph[0], layer.output]), graph[1])

    def run(settings):
        features = before(data)

        def blend(x, y):
            x_detached, y_detached = ops.stop_gradient(x), ops.stop_gradient(y)
            return x_detached + settings[0] * (x - x_detached) + settings[1] * (y - y_detached)

        blended = keras.tree.map_structure(blend, features, layer(features))
        return after(keras.tree.flatten([data, blended]))

    features = before(data)
    if not all(map(is_floating, keras.tree.flatten(features))):
        return "unknown", run
    with preserve_state(model):
        matches = values_match(layer(features), features)
    return None if matches else "changes values", run


def _compile_gradients(model, run, num_outputs, weights, mode):
    """Returns a function from settings to the gradients of the outputs, `(outputs, numbers)`.

    Args:
        model: The Keras model.
        run: Function from settings to a list of outputs.
        num_outputs: Length of that list.
        weights: Variables of the model. Their gradients are joined to one axis.
        mode: Where gradients are computed.
    """
    values = [ops.convert_to_tensor(weight.value) for weight in weights]

    def slopes(values, settings):
        def loss(index, values):
            with preserve_state(model, list(zip(weights, values, strict=True))):
                return _random_sum(run(settings)[index])

        return [gradients(lambda *v, i=i: loss(i, v), values) for i in range(num_outputs)]

    compiled = in_mode(slopes, mode)

    def gradients_at(settings):
        rows = compiled(values, [ops.convert_to_tensor(number) for number in settings])
        return np.stack([as_vector(row) for row in rows])

    return gradients_at


def _find_obstacle(identity_gradients, identity_total, outputs):
    """Returns why no trainable weight has a gradient through the reversal, a state of `certify`.

    Args:
        identity_gradients: Gradients of all weights through the reversal, which is replaced by the
            identity, `(outputs, numbers)`.
        identity_total: These gradients plus the gradients that do not pass the reversal.
        outputs: List of outputs.
    """
    if np.abs(identity_gradients).max() > _NOTHING * np.abs(identity_total).max():
        return "backbone frozen"
    # A saturated output has no gradient at all, not even in the weights of its discriminator.
    rows = zip(outputs, identity_total, strict=True)
    is_flat = any(is_floating(output) and not row.any() for output, row in rows)
    return "no gradient" if is_flat else "detached"


def _find_weights_with_gradient(slopes, weights):
    """Returns which of the first weights has a gradient above rounding, `(outputs, weights)`."""
    offsets = np.cumsum([np.prod(weight.shape, dtype=int) for weight in weights], dtype=int)
    parts = np.split(np.abs(slopes), offsets, axis=1)[: len(weights)]
    sizes = np.array([part.max(axis=1, initial=0.0) for part in parts]).T.reshape(len(slopes), -1)
    return sizes > _NOTHING * sizes.max(initial=0.0)


def _find_fault(has_reversed_gradient, has_bypass_gradient, is_reversed):
    """Returns the fault in the place of a reversal, a state of `certify`, or `None`.

    Args:
        has_reversed_gradient: Whether each weight has a gradient through the reversal,
            `(outputs, weights)`.
        has_bypass_gradient: Whether each weight has a gradient that bypasses the reversal, of the
            same shape.
        is_reversed: Whether each output comes from the reversal, `(outputs,)`.
    """
    if not has_bypass_gradient[is_reversed].any():
        return "behind the discriminator"
    serves_labels = has_bypass_gradient[~is_reversed].any(axis=0)
    # There may be no other outputs, or only outputs without a gradient, such as class numbers.
    if not serves_labels.any():
        return "every output" if is_reversed.sum() > 1 else None
    is_upstream = has_reversed_gradient.any(axis=0)
    # If no weight before the reversal serves the labels, these train on detached features.
    is_inside = (is_upstream & ~serves_labels).any() and (is_upstream & serves_labels).any()
    return "within the discriminator" if is_inside else None


def _random_sum(output):
    """Returns the sum of all numbers in an output, each times a fixed random number."""
    if not is_floating(output):
        return ops.zeros(())
    factors = np.random.default_rng(0).normal(size=tuple(output.shape))
    return ops.sum(ops.cast(output, "float32") * ops.convert_to_tensor(factors, "float32"))


def _describe_outputs(model, outputs, is_reversed):
    """Returns the names and widths of the outputs that are reversed, and of the others."""
    paths = keras.tree.flatten_with_path(outputs)
    if len(paths) == 1:
        return {}
    names = getattr(model, "output_names", None)
    names = names or [" ".join(map(str, ("output", *path))) for path, _ in paths]
    widths = [tensor.shape[-1] if len(tensor.shape) > 1 else 1 for _, tensor in paths]
    texts = np.array([f"{name} ({width})" for name, width in zip(names, widths, strict=True)])
    return {
        "reversal/outputs": ", ".join(texts[is_reversed]),
        "reversal/other_outputs": ", ".join(texts[~is_reversed]),
    }
