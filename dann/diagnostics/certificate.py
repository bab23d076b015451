"""Whether the gradient that reaches the features is reversed, and if not, what is wrong."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.networks import get_graph
from dann.adaptation.preserve_state import preserve_state
from dann.autodiff import gradients, vjp
from dann.diagnostics.passes import (
    adversarial,
    as_tensors,
    as_vector,
    features_of,
    in_mode,
    losses_of,
    mode_of,
    modes_here,
    part_between,
    to_numpy,
    trains_backbone,
)
from dann.diagnostics.reversal_place import (
    fault_of_place,
    in_words,
    is_floating,
    random_sum,
)
from dann.diagnostics.reversal_state import Pull, Reversal, judged, pull_of, rises_later
from dann.diagnostics.reversal_within import of_inner, reversals_in
from dann.layers import GradientReversal

_SCALE = 2.0**10  # of a loss in half precision
_ROUNDING = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}


def certify(
    model: Any,
    data: Any,
    *,
    layer: str | None = None,
    strength: float | None = None,
    mode: str | None = None,
) -> dict[str, Any]:
    """Certifies that gradients are reversed on the way from the discriminator to the features.

    It compares the gradient `g` with respect to the features with the gradient `h` that would come
    without the reversal, and names the state:

    - `reversal/cosine`: `g'h / (||g|| ||h||)`, -1 if the reversal works
    - `reversal/ratio`: `||g|| / ||h||`, which should be `reversal/strength`, the strength that the
      reversal reports
    - `reversal/head_error`: `||u - v|| / ||v||` for the gradients `u` and `v` of the
      discriminator's weights with and without the reversal, 0 if it works; `reversal/head_norm`,
      the norm of that of all weights behind the features
    - `reversal/calls`: how many reversals there are on the way
    - `reversal/state`: "alive", "not started", "wrong strength", "no gradient", "not finite", "cannot
      tell" or a fault, see `dann.diagnostics.verdict.STATES`; without a reversal "oracle", "none"
      or, where other losses adapt, "no adversary"
    - `reversal/outputs` and `reversal/other_outputs`, of several outputs: which come from the
      reversal, with their widths, and which do not
    - `features/spread`, of a model: largest standard deviation of a feature over all examples,
      divided by the largest absolute feature or 1

    What is certified:

    - A model of `dann.adaptation`: `g` and `h` are those of its own adversarial loss in training,
      the latter with the identity in the reversal's place.
    - A functional model and the name of one of its layers, somebody's reversal: that layer on the
      values that the model gives it, with the gradient of a random sum of the model's outputs.
      Without a name it is the first `GradientReversal`. One within another layer or a nested model
      is judged by the gradients of the weights, in inference.
    - A layer or a function of a tensor, which is the reversal, with a random upstream gradient.

    The model does not change.

    Args:
        layer: Name of the reversal in a functional model. Defaults to the first `GradientReversal`.
        strength: What the strength should be. Defaults to what a `GradientReversal` reports, and
            for others to what is measured.
        mode: As in every diagnostic. For a layer or a function it defaults to all that the backend
            has; the worst result counts.

    Raises:
        ValueError: If a `dann` model is not compiled, the mode is unknown, there is no example, or
            the model has no layer of that name.

    Example:

    >>> import keras
    >>> from dann.diagnostics import certify
    >>> from dann.layers import GradientReversal
    >>> found = certify(GradientReversal(0.5), keras.ops.ones((2, 3)))
    >>> found["reversal/state"], round(found["reversal/cosine"], 3), found["reversal/ratio"]
    ('alive', -1.0, 0.5)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 13 to 18.
    """
    data = as_tensors(data)
    if any(tuple(x.shape)[:1] == (0,) for x in keras.tree.flatten(data)):
        raise ValueError("Argument `data` must hold at least one example to get a gradient")
    if isinstance(model, AdversarialModel):
        with preserve_state(model):
            parts = model.extract_features(model.augment(data[0], False), False).values()
        found = {"features/spread": _spread(*parts)}
        if model.reversal is None:
            adapts = model.terms or model.regularizers
            state = "oracle" if model.oracle else "no adversary" if adapts else "none"
            return found | {"reversal/state": state}
        return found | _of_method(adversarial(model), data, mode or mode_of(model))
    inputs = data[0] if isinstance(data, tuple) else data
    if isinstance(model, keras.Model):
        return _of_functional(model, inputs, layer, strength, mode)
    upstream = keras.tree.map_structure(_random, inputs)
    return _of_layer(model, inputs, upstream, strength, mode)


def _spread(*tensors):
    features = np.concatenate([to_numpy(one) for one in tensors])
    return float(features.std(axis=0).max() / max(np.abs(features).max(), 1.0))


def _of_method(model, data, mode):
    training, calls = trains_backbone(model), []

    def counting(inputs, training=False):
        calls.append(inputs)
        return model.reversal(inputs, training=training)

    with preserve_state(model):
        features = features_of(model, data[0], training)
        losses_of(model, data, features, training, counting)
        reported = float(to_numpy(model.reversal.strength))
    of_backbone = {id(one) for one in model.backbone.trainable_variables}
    head = [one for one in model.trainable_variables if id(one) not in of_backbone]
    discriminator = getattr(model, "domain_head", None)
    own = {id(one) for one in discriminator.trainable_variables} if discriminator else ()
    # The gradient by what the reversal returns is that by zeros which are added to it.
    zeros = [ops.zeros(one.shape, one.dtype) for one in calls]
    point = features, zeros, [ops.convert_to_tensor(one.value) for one in head]
    types = {keras.backend.standardize_dtype(one.dtype) for one in features.values()}
    scale = _SCALE if "float16" in types else 1.0  # small gradients vanish there

    def pull(reverse):
        def loss(*xs):
            given, added, values = keras.tree.pack_sequence_as(point, xs)

            def reversal(inputs, training=False):
                return reverse(inputs, training=training) + added.pop(0)

            with preserve_state(model, list(zip(head, values, strict=True))):
                return scale * losses_of(model, data, given, training, reversal).adversarial

        run = in_mode(lambda *xs: gradients(loss, list(xs)), mode)
        found = [to_numpy(one) / scale for one in run(*keras.tree.flatten(point))]
        before, after, of_head = keras.tree.pack_sequence_as(point, found)
        of_own = [one for one, weight in zip(of_head, head, strict=True) if id(weight) in own]
        return Pull(*map(as_vector, (list(before.values()), after, of_head, of_own)))

    found, plain = pull(model.reversal), pull(lambda features, training: features)
    rises = rises_later(model.reversal, int(to_numpy(model.optimizer.iterations)) > 0)
    size = float(np.linalg.norm(as_vector(list(features.values()))))
    measured = judged(found, plain, Reversal(size, len(calls), reported, rises))
    if not of_backbone:
        return measured | {"reversal/state": "backbone frozen"}
    others = reversals_in(model)
    if len(others) > 1 and measured["reversal/state"] in ("alive", "wrong strength"):
        measured["reversal/state"] = "applied twice"
        measured["reversal/calls"] += len(others) - 1
    return measured


def _of_functional(model, data, name, strength, mode):
    graph = get_graph(model)
    named = [model.get_layer(name)] if name is not None else []
    reversals = named or [one for one in model.layers if isinstance(one, GradientReversal)]
    inner = name is None and len(reversals_in(model)) > len(reversals)  # within layers
    if graph is None or not reversals or inner:
        return of_inner(model, data, strength, mode or mode_of(model))
    layer = reversals[0]
    if _follows_itself(layer):
        return {"reversal/state": "applied twice", "reversal/calls": 2.0}
    outputs = keras.tree.flatten(graph[1])
    is_last = any(one is layer.output for one in outputs)
    reached = [one for one in outputs if not is_last and part_between(layer.output, one)]
    if not reached and not is_last:
        if any(one is layer for one in keras.Model(graph[0], outputs).layers):
            # Its outputs come from other tensors too.
            return of_inner(model, data, strength, mode or mode_of(model))
        return {"reversal/state": "not reached", "reversal/calls": 0.0}
    after = None if is_last else keras.Model(keras.tree.flatten(layer.output), reached)
    before = keras.Model(graph[0], layer.input)
    with preserve_state(model):
        features = before(data, training=True)
        upstream = keras.tree.map_structure(_random, features)
        if after is not None:
            reversed_features = keras.tree.flatten(layer(features, training=True))
            upstream = gradients(
                lambda *xs: random_sum(after(list(xs), training=True)), reversed_features
            )
    found = _of_layer(layer, features, upstream, strength, mode or mode_of(model))
    if found["reversal/state"] == "unknown":
        return found
    turned = [_comes_from_one(graph[0], one, layer) for one in outputs]
    found |= in_words(model, graph[1], turned)
    found["features/spread"] = max(map(_spread, keras.tree.flatten(features)))
    behind = [] if after is None else after.layers
    found["reversal/calls"] += sum(isinstance(one, GradientReversal) for one in behind)
    if found["reversal/state"] in ("alive", "wrong strength", "no gradient"):
        rest = [one for one, is_turned in zip(outputs, turned, strict=True) if not is_turned]
        others = keras.Model(graph[0], rest) if rest and not is_last else None
        passes = found["reversal/state"] != "no gradient"
        fault = fault_of_place(before, after, data, others, len(outputs) > 1, passes)
        found["reversal/state"] = fault or found["reversal/state"]
    return found


def _comes_from_one(inputs, output, layer):
    """Whether an output comes from the layer, or from another reversal."""
    parts = keras.Function(inputs, output).operations
    return any(part is layer or isinstance(part, GradientReversal) for part in parts)


def _follows_itself(layer):
    nodes = layer._inbound_nodes  # the public `input` and `output` are for one call alone
    given = {id(one) for node in nodes for one in node.output_tensors}
    return any(id(one) in given for node in nodes for one in node.input_tensors)


def _of_layer(call: Callable, inputs, upstream, strength, mode) -> dict[str, Any]:
    xs, upstream = keras.tree.flatten(inputs), keras.tree.flatten(upstream)
    if not all(map(is_floating, xs)):
        return {"reversal/state": "unknown"}
    own = isinstance(call, GradientReversal)
    arguments = {"training": True} if isinstance(call, keras.Layer) else {}

    def runs(*xs):
        return call(keras.tree.pack_sequence_as(inputs, xs), **arguments)

    def both(xs, upstream):
        with preserve_state(call) if isinstance(call, keras.Layer) else keras.StatelessScope():
            outputs, found = vjp(runs, xs, upstream)
            # A cast reads a variable here, within the scope.
            return outputs, found, ops.cast(getattr(call, "strength", 0.0), "float32")

    every = []
    for one in [mode] if mode else modes_here():
        outputs, found, reported = in_mode(both, one)(xs, upstream)
        given = float(to_numpy(reported)) if own and strength is None else strength
        size = float(np.linalg.norm(as_vector(xs)))
        reversal = Reversal(size, 1, given, own and rises_later(call, False))
        measured = judged(pull_of(found), pull_of(upstream), reversal)
        if not all(map(_same, map(to_numpy, keras.tree.flatten(outputs)), xs)):
            measured["reversal/state"] = "changes values"
        every.append(measured)
    return max(every, key=lambda found: found["reversal/state"] != "alive")


def _same(values, x):
    close = 4 * _ROUNDING[keras.backend.standardize_dtype(x.dtype)]  # it may round twice
    before = to_numpy(x)
    size = np.max(np.abs(before), initial=0.0, where=np.isfinite(before))
    return np.allclose(before, values, rtol=close, atol=close * size, equal_nan=True)


def _random(tensor):
    values = np.random.default_rng(0).normal(size=tuple(tensor.shape))
    return ops.cast(ops.convert_to_tensor(values, "float32"), tensor.dtype)
