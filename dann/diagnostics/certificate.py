"""Whether the gradient that reaches the features is reversed, and if not, what is wrong."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.networks import graph_of
from dann.adaptation.smooth_task import frozen
from dann.autodiff import vjp
from dann.diagnostics.catalogue import ANY_MODEL, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.layers import is_floating, leaves
from dann.diagnostics.instruments.losses import check_adversarial
from dann.diagnostics.instruments.modes import (
    as_tensors,
    in_mode,
    inputs_of,
    mode_of,
    modes_here,
)
from dann.diagnostics.instruments.reversal_state import (
    ALIKE,
    OFF,
    TOLERANCE,
    Sides,
    measured_of,
    rises_later,
    state_of,
)
from dann.diagnostics.instruments.reversed_pass import Gradients, reversed_pass
from dann.diagnostics.instruments.vectors import cosine, length_ratio, norm, to_numpy
from dann.layers import GradientReversal

_ROUNDING = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}


def _near_strength(found):
    strength = found.get("reversal/strength", math.nan)
    if math.isnan(strength):
        return None
    if strength == 0:  # a ratio of 0 is right then, but not healthy
        return 1e-6, math.inf
    return (1 - TOLERANCE) * strength, (1 + TOLERANCE) * strength


@DIAGNOSTICS.register(
    "certificate",
    models=ANY_MODEL,
    quick=True,
    like_a_step=True,
    order=10,
    healthy=(
        HealthyRange(
            "reversal/cosine",
            "Direction of the reversed gradient",
            "Cosine of the features' gradient with and without the reversal. -1: it is reversed. "
            "+1: the reversal does nothing, or is there twice.",
            low=-1.001,  # -1 up to rounding
            high=-ALIKE,
            words=f"at most {-ALIKE:g}",
        ),
        HealthyRange(
            "reversal/ratio",
            "Strength that arrives",
            "Length of the reversed gradient divided by that of the plain one. It should be the "
            "strength that the reversal reports, and above 0 once the schedule has begun.",
            given=_near_strength,
            words=f"within {TOLERANCE:.0%} of reversal/strength",
        ),
        HealthyRange(
            "reversal/head_error",
            "Change of the discriminator's gradient",
            "Change by the reversal, as a share. It should be 0: the discriminator learns at full "
            "rate. 2: it is reversed too.",
            high=OFF,
        ),
    ),
)
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
    without the reversal: their cosine and lengths. It names the state. `docs/diagnostics.md` lists
    the measurements with their formulas and healthy values. What is certified:

    - A model of `dann.adaptation`: `g` and `h` are those of its own adversarial loss in training,
      the latter with the identity in the reversal's place.
    - A functional model and the name of one of its layers, somebody's reversal: that layer on the
      values that the model gives it, with the gradient of a random sum of the model's outputs.
      Without a name it is the first `GradientReversal`.
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
        if model.reversal is None:
            return {"reversal/state": "none"}
        return _of_method(check_adversarial(model), data, mode or mode_of(model))
    data = inputs_of(data)
    if isinstance(model, keras.Model):
        return _of_functional(model, data, layer, strength, mode)
    return _of_layer(model, data, ops.cast(_random(data), data.dtype), strength, mode)


def _of_method(model, data, mode):
    run = reversed_pass(model, data)
    with np.errstate(invalid="ignore", over="ignore"):  # gradients may not be finite
        found, plain = run.gradients(mode), run.gradients(mode, taken_out=True)
        rises = rises_later(model.reversal, int(model.optimizer.iterations) > 0)
        sides = Sides(found, plain, run.size, run.strength, rises)
        measured = measured_of(sides)
    discriminator = getattr(model, "domain_head", None)
    if discriminator is not None and plain.before:
        own = {id(weight) for weight in discriminator.trainable_variables}
        chosen = [i for i, weight in enumerate(run.head) if id(weight) in own]
        given, expected = ([one.head[i] for i in chosen] for one in (found, plain))
        difference = [a - b for a, b in zip(given, expected, strict=True)]
        measured["reversal/head_error"] = length_ratio(difference, expected)
    measured["reversal/head_norm"] = norm(found.head)
    if run.backbone:
        measured["reversal/backbone_cosine"] = cosine(found.backbone, plain.backbone)
        measured["reversal/backbone_ratio"] = length_ratio(found.backbone, plain.backbone)
    measured["reversal/state"] = state_of(sides, measured)
    others = [one for one in leaves(model).values() if isinstance(one, GradientReversal)]
    if len(others) > 1 and measured["reversal/state"] in ("alive", "wrong strength"):
        measured["reversal/state"] = "applied twice"
        measured["reversal/calls"] += len(others) - 1
    if plain.before:
        name = f"reversal/{model.reversal.name}"
        measured[f"{name}/cosine"] = cosine(found.before, found.after)
        measured[f"{name}/ratio"] = length_ratio(found.before, found.after)
    return measured


def _of_functional(model, data, name, strength, mode):
    graph, reversals = graph_of(model), []
    if graph is not None:
        named = [one for one in model.layers if one.name == name]
        if name is not None and not named:
            raise ValueError(f"The model has no layer of that name. Received: layer={name!r}")
        reversals = named or [one for one in model.layers if isinstance(one, GradientReversal)]
    if not reversals:
        return {"reversal/state": "cannot tell"}
    layer, outputs = reversals[0], keras.tree.flatten(graph[1])
    if _follows_itself(layer):
        return {"reversal/state": "applied twice", "reversal/calls": 2.0}
    is_last = any(one is layer.output for one in outputs)
    reached = [one for one in outputs if not is_last and _comes_from(layer.output, one)]
    if not reached and not is_last:
        return {"reversal/state": "not reached", "reversal/calls": 0.0}
    before = keras.Model(graph[0], layer.input)
    after = None if is_last else keras.Model(layer.output, reached)
    with frozen(model):
        features = before(data, training=True)
        upstream = ops.cast(_random(features), features.dtype)
        if after is not None:
            loss = lambda x: random_sum(after(x, training=True))  # noqa: E731
            (upstream,) = vjp(loss, [layer(features, training=True)], [ops.ones(())])[1]
        found = _of_layer(layer, features, upstream, strength, mode or mode_of(model))
    behind = [] if after is None else after.layers
    found["reversal/weights_behind"] = float(sum(len(one.trainable_weights) for one in behind))
    again = [one for one in behind if isinstance(one, GradientReversal) and one is not layer]
    if found["reversal/state"] in ("alive", "wrong strength"):
        if again:
            found |= {"reversal/state": "applied twice", "reversal/calls": 1.0 + len(again)}
        elif not found["reversal/weights_behind"]:
            found["reversal/state"] = "behind the discriminator"
    return found


def _follows_itself(layer):
    nodes = layer._inbound_nodes
    given = {id(one) for node in nodes for one in node.output_tensors}
    return any(id(one) in given for node in nodes for one in node.input_tensors)


def _comes_from(tensor, output):
    try:
        keras.Model(tensor, output)
    except ValueError:  # other inputs are needed
        return False
    return True


def _of_layer(call: Callable, x, upstream, strength, mode) -> dict[str, Any]:
    if not is_floating(x):
        return {"reversal/state": "cannot tell"}
    own = isinstance(call, GradientReversal)
    runs = call if not isinstance(call, keras.Layer) else lambda x: call(x, training=True)
    every = []
    for one in [mode] if mode else modes_here():
        values, gradient, reported = _pulled_back(call, runs, x, upstream, one)
        given = reported if own and strength is None else strength
        found = Gradients([gradient], [], [], [gradient], [to_numpy(upstream)])
        plain = found._replace(features=[to_numpy(upstream)])
        sides = Sides(found, plain, norm([to_numpy(x)]), given, own and rises_later(call, False))
        measured = measured_of(sides)
        state = state_of(sides, measured)
        if not _same(values, x):
            state = "changes values"
        measured["reversal/state"] = state
        every.append(measured)
    return max(every, key=lambda found: found["reversal/state"] != "alive")


def _pulled_back(call, runs, x, upstream, mode):
    """The outputs and the gradient of a layer, and the strength that it reports then."""

    def both(x, upstream):
        scope = frozen(call) if isinstance(call, keras.Layer) else keras.StatelessScope()
        with scope:
            outputs, (gradient,) = vjp(runs, [x], [upstream])
            return outputs, gradient, ops.convert_to_tensor(getattr(call, "strength", 0.0))

    outputs, gradient, reported = map(to_numpy, in_mode(both, mode)(x, upstream))
    return outputs, gradient, float(reported)


def _same(values, x):
    close = 4 * _ROUNDING[keras.backend.standardize_dtype(x.dtype)]  # it may round twice
    before = to_numpy(x)
    size = np.max(np.abs(before), initial=0.0, where=np.isfinite(before))
    return np.allclose(before, values, rtol=close, atol=close * size, equal_nan=True)


def _random(tensor):
    return ops.convert_to_tensor(
        np.random.default_rng(0).normal(size=tuple(tensor.shape)), "float32"
    )


def random_sum(outputs: Any) -> Any:
    """Returns the sum of all floating-point numbers in outputs, each times a fixed random one."""
    rng = np.random.default_rng(0)
    total = ops.zeros(())
    for output in filter(is_floating, keras.tree.flatten(outputs)):
        weights = ops.convert_to_tensor(rng.normal(size=tuple(output.shape)), "float32")
        total = total + ops.sum(ops.cast(output, "float32") * weights)
    return total
