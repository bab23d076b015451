"""Certifies that the gradient that reaches the features is reversed, or names the fault."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel, TargetOnly
from dann.adaptation.batch import is_pair
from dann.adaptation.networks import get_graph
from dann.adaptation.preserve_state import preserve_state
from dann.autodiff import gradients, vjp
from dann.diagnostics.model_reversal import find_reversals, measure_model
from dann.diagnostics.passes import (
    as_batch,
    as_tensors,
    as_vector,
    check_method,
    extract_features,
    fit_mode,
    in_mode,
    is_floating,
    modes,
    step_losses,
    to_float64,
    trains_backbone,
    values_match,
)
from dann.diagnostics.reversal_state import ReversalGradients, measure_reversal, rises_later
from dann.layers import GradientReversal

_LOSS_SCALE = 2.0**10  # keeps small gradients above the underflow of half precision


def certify(
    model: Any,
    data: Any,
    *,
    layer: str | None = None,
    strength: float | None = None,
    mode: str | None = None,
) -> dict[str, Any]:
    """Certifies that the gradient is reversed between the discriminator and the features.

    It compares the gradient `g` with respect to the features with the gradient `h` that would
    arrive without the reversal, and names the state:

    - `reversal/cosine`: `g'h / (||g|| ||h||)`, -1 if the reversal works
    - `reversal/ratio`: `||g|| / ||h||`, which should equal `reversal/strength`, the strength that
      the reversal reports
    - `reversal/head_error`: `||u - v|| / ||v||` for the gradients `u` and `v` of the
      discriminator's weights with and without the reversal, 0 if it works; `reversal/head_norm`,
      the norm of the gradient of all weights behind the features
    - `reversal/calls`: number of reversals that the gradient passes
    - `reversal/state`: "working", "not started", "wrong strength", "no gradient", "not finite",
      "unknown" or a fault, see `dann.diagnostics.verdict.STATES`. Without a reversal, the state is
      "not found" for a Keras model without a `GradientReversal` layer; for a method it is "oracle"
      (it trains on target labels), "no adversary" (other losses adapt) or "none" (nothing adapts)
    - `reversal/outputs` and `reversal/other_outputs`, for several outputs: the outputs that come
      from the reversal, with their widths, and all other outputs
    - `features/spread`, for a method: largest standard deviation of a feature over all examples,
      divided by the largest absolute feature or 1

    The gradients depend on the model:

    - A model of `dann.adaptation`: `g` and `h` are the gradients of its adversarial loss in
      training; for `h`, the identity replaces the reversal.
    - Any other Keras model: `g` and `h` are the gradients of the weights, for a random sum of each
      output in inference, that pass its `GradientReversal` layers, or the layer of a functional
      model that `layer` names.
    - A layer or a function of a tensor, which is the reversal: `h` is a random upstream gradient.

    The model does not change.

    Args:
        model: A model of `dann.adaptation`, any Keras model or layer, or a function of a tensor.
        data: One batch, `({"source": xs, "target": xt}, ys)`, or pairs of `dann.data.pair`; for
            other models their inputs.
        layer: Name of a custom reversal layer in a functional model. Defaults to `None`: every
            `GradientReversal`, also in nested layers and models.
        strength: Expected strength. Defaults to `None`: the strength that a `GradientReversal`
            reports, and the measured ratio for other reversals.
        mode: `"eager"`, `"graph"` or `"xla"`. Defaults to `None`: the mode in which `fit` runs the
            model; for a layer or a function all modes of the backend; the
            measurements are of the first mode in which the reversal does not work.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If a `dann` model is not compiled, the mode is unknown, there is no example, or
            the model has no layer of that name; data frames have other columns than in `fit`; or
            the data of a model from elsewhere are a pair.

    Example:

    >>> import keras
    >>> from dann.diagnostics import certify
    >>> from dann.layers import GradientReversal
    >>> certificate = certify(GradientReversal(0.5), keras.ops.ones((2, 3)))
    >>> certificate["reversal/state"], certificate["reversal/ratio"]
    ('working', 0.5)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 13 to 18.
    """
    data = as_tensors(as_batch(model, data))
    if isinstance(model, AdversarialModel):
        return _measure_method(model, data, mode)
    inputs = data[0] if isinstance(data, tuple) else data
    if isinstance(model, keras.Model):
        graph = get_graph(model)
        if is_pair(inputs) and graph and not isinstance(graph[0], dict):
            raise ValueError(
                f"Expected `certify(model, inputs)`, because {type(model).__name__} is not a model "
                "of `dann.adaptation`. Received: both domains of a pair. Pass the inputs of one "
                "domain, such as `inputs['source']`"
            )
        reversal = None if layer is None else model.get_layer(layer)
        return measure_model(model, inputs, reversal, strength, mode or fit_mode(model))
    return _measure_layer(model, inputs, strength, mode)


def _measure_method(model, data, mode):
    with preserve_state(model):
        domain_features = model.extract_features(model.augment(data[0], False), False).values()
    values = np.concatenate([to_float64(features) for features in domain_features])
    std = float(values.std(axis=0).max() / max(np.abs(values).max(), 1.0))
    measurements: dict[str, Any] = {"features/spread": std}
    if model.reversal is None:
        state = "no adversary" if model.terms or model.regularizers else "none"
        state = "oracle" if isinstance(model, TargetOnly) else state
        return measurements | {"reversal/state": state}
    training, reversal_inputs = trains_backbone(check_method(model)), []

    def record_call(inputs, training=False):
        reversal_inputs.append(inputs)
        return model.reversal(inputs, training=training)

    with preserve_state(model):
        features = extract_features(model, data[0], training)
        step_losses(model, data, features, training, record_call)
        strength = float(to_float64(model.reversal.strength))
    backbone_weights = model.backbone.trainable_variables
    discriminator = getattr(model, "domain_head", None)
    discriminator_weights = discriminator.trainable_variables if discriminator else []
    ids = {id(weight) for weight in [*backbone_weights, *discriminator_weights]}
    other_weights = [weight for weight in model.trainable_variables if id(weight) not in ids]
    head = [*discriminator_weights, *other_weights]
    # The gradient with respect to the outputs of the reversal is the gradient with respect to
    # zeros that are added to them.
    zeros = [ops.zeros(inputs.shape, inputs.dtype) for inputs in reversal_inputs]
    point = features, zeros, [ops.convert_to_tensor(weight.value) for weight in head]
    types = {keras.backend.standardize_dtype(tensor.dtype) for tensor in features.values()}
    scale = _LOSS_SCALE if "float16" in types else 1.0

    def gradients_with(reverse):
        def loss(*tensors):
            features, offsets, values = keras.tree.pack_sequence_as(point, tensors)

            def reversal(inputs, training=False):
                return reverse(inputs, training=training) + offsets.pop(0)

            with preserve_state(model, list(zip(head, values, strict=True))):
                return scale * step_losses(model, data, features, training, reversal).adversarial

        run = in_mode(lambda *tensors: gradients(loss, list(tensors)), mode or fit_mode(model))
        flat = [to_float64(gradient) / scale for gradient in run(*keras.tree.flatten(point))]
        feature_gradients, after, head_gradients = keras.tree.pack_sequence_as(point, flat)
        discriminator_gradients = head_gradients[: len(discriminator_weights)]
        groups = feature_gradients.values(), after, head_gradients, discriminator_gradients
        return ReversalGradients(*map(as_vector, groups))

    measurements |= measure_reversal(
        gradients_with(model.reversal),
        gradients_with(lambda features, training: features),
        len(reversal_inputs),
        strength,
        rises_later(model.reversal, int(to_float64(model.optimizer.iterations)) > 0),
        float(np.linalg.norm(as_vector(list(features.values())))),
    )
    if not backbone_weights:
        return measurements | {"reversal/state": "backbone frozen"}
    count = len(find_reversals(model))  # a backbone or a head may contain more
    if count > 1 and measurements["reversal/state"] in ("working", "wrong strength"):
        measurements["reversal/state"] = "applied twice"
        measurements["reversal/calls"] += count - 1
    return measurements


def _measure_layer(call: Callable, inputs, strength, mode) -> dict[str, Any]:
    tensors = keras.tree.flatten(inputs)
    if not all(map(is_floating, tensors)):
        return {"reversal/state": "unknown"}
    rng = np.random.default_rng(0)
    upstream = [
        ops.cast(rng.normal(size=tuple(tensor.shape)).astype("float32"), tensor.dtype)
        for tensor in tensors
    ]
    is_known = isinstance(call, GradientReversal)
    arguments = {"training": True} if isinstance(call, keras.Layer) else {}

    def run(*tensors):
        return call(keras.tree.pack_sequence_as(inputs, tensors), **arguments)

    def pull_back(tensors, upstream):
        with preserve_state(call) if isinstance(call, keras.Layer) else keras.StatelessScope():
            outputs, input_gradients = vjp(run, tensors, upstream)
            # A cast reads the variable here, within the scope.
            return outputs, input_gradients, ops.cast(getattr(call, "strength", 0.0), "float32")

    for mode_name in [mode] if mode else modes():
        outputs, input_gradients, reported = in_mode(pull_back, mode_name)(tensors, upstream)
        measurements = measure_reversal(
            ReversalGradients(as_vector(input_gradients)),
            ReversalGradients(as_vector(upstream)),
            strength=float(to_float64(reported)) if is_known and strength is None else strength,
            rises=is_known and rises_later(call, False),
            feature_norm=float(np.linalg.norm(as_vector(tensors))),
        )
        if not values_match(outputs, tensors):
            measurements["reversal/state"] = "changes values"
        if measurements["reversal/state"] != "working":
            break
    return measurements
