"""Whether the gradient of the features is really reversed, and if not, what is wrong."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.diagnostics.contexts import as_tensors, inputs_of, mode_of
from dann.diagnostics.reversal_pass import Gradients, ModelPass, PairPass, ReversalPass
from dann.diagnostics.taps import cosine, norm
from dann.layers import GradientReversal

ALIKE = 0.99  # cosine above which two gradients point alike
TOLERANCE = 0.02  # of the strength
NOTHING = 1e-6  # ratio below which no gradient comes through
VANISHED = 2e-7  # change of the loss by all of the features below which it is rounding
LATER = [10**power for power in range(7)]  # steps from now in which a schedule may rise


def reversal_certificate(
    model: Any, data: Any, *, mode: str | None = None
) -> dict[str, float | str]:
    """Certifies that gradients are reversed on the way from the discriminator to the features.

    With `g` the gradient of the loss with respect to the features as training sees it, and `h` the
    same with every reversal taken out,

    - `reversal/cosine = <g, h> / (||g|| ||h||)`; healthy: -1
    - `reversal/ratio = ||g|| / ||h||`; healthy: the strength
    - `reversal/strength`: what the reversal itself says
    - `reversal/head_error = ||g_d - h_d|| / ||h_d||` over the weights after the reversal, which
      must learn at full rate; healthy: 0. `reversal/head_norm = ||g_d||`; healthy: above 0. Both
      are missing where no trainable weight is
    - `reversal/feature_norm = ||h||`; healthy: above 0. At 0 the discriminator tells nothing
    - `reversal/calls`: calls of reversals in one pass; healthy: 1, or 1 a domain
    - `reversal/<layer>/cosine`, `reversal/<layer>/ratio`: of what leaves the layer against what
      enters it; healthy: -1 and the strength
    - `reversal/backbone_cosine`, `reversal/backbone_ratio`: as the first two, of the backbone's
      weights (of a `dann` model)
    - `reversal/state`, in words:
        - `"alive"`; `"not begun"`: the strength is 0 and its schedule rises later
        - `"not finite"`: a gradient is not, and nothing else can be told
        - `"forgotten"`: nothing is reversed; `"applied twice"`: reversed and reversed back
        - `"wrong sign"`: a reversal passes the gradient on without turning it around
        - `"graph override"`: reversed only for a tape outside of the `tf.function`, as a bare
          `gradient_override_map` is, and so not in `fit`
        - `"strength 0"`, `"cut"`: no gradient comes through, by the strength or by something else
        - `"wrong strength"`, `"partly reversed"`: the length, or the direction, is another
        - `"no gradient"`: the discriminator gives none; `"none"`: the method has no reversal

    Of a model of `dann.adaptation` the loss is the model's own `adversarial_losses`, in a pass with
    `training=True`; the features are those of both domains. Of any other Keras model or layer it is
    a random sum of the outputs, and the features are what enters its first reversal; of a plain
    function, they are its inputs. Reversals are found by role, by name (`revers`, `grl`) and by
    behaviour; where none is found, central differences of the loss along `g` stand in for `h`, and
    tell its sign and its length, which finds a reversal in a function too. That takes the rest of
    the way to be differentiable.

    At most 3 backward passes, in the mode in which the model trains. In half precision the loss is
    multiplied by a power of two, as a loss-scaling optimizer does, and what comes out divided; a
    pass that overflows runs again with a smaller one. Nothing of the model changes.

    Args:
        model: Model of `dann.adaptation`, any Keras model or layer, or a function of a tensor.
        data: One batch `({"source": xs, "target": xt}, ys)`; for other models and for functions
            their inputs, alone or with labels, which are not looked at.
        mode: `"eager"`, `"graph"` or `"xla"`. Defaults to the one in which `fit` runs the model.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If a `dann` model is not compiled, or the mode is unknown.

    Example:

    >>> import keras
    >>> from dann.diagnostics import reversal_certificate
    >>> from dann.layers import GradientReversal
    >>> found = reversal_certificate(GradientReversal(0.5), keras.ops.ones((2, 3)))
    >>> found["reversal/state"], round(found["reversal/cosine"], 3), found["reversal/ratio"]
    ('alive', -1.0, 0.5)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 13 to 18.
    """
    run = _pass_of(model, as_tensors(data))
    if run is None:
        return {"reversal/state": "none"}
    mode = mode or mode_of(model)
    found = run.measure(mode)
    with np.errstate(invalid="ignore", over="ignore"):  # of gradients that are not finite
        plain = run.measure(mode, taken_out=True) if run.calls else _by_differences(run, found)
        measured, layers = _numbers(run, found, plain)

    def holds_outside() -> bool:
        if keras.backend.backend() != "tensorflow":
            return False
        return cosine(run.measure("graph", outside=True).features, plain.features) < -ALIKE

    finite = found.are_finite() and plain.are_finite()
    state = _state(run, found, measured, layers, holds_outside) if finite else "not finite"
    measured["reversal/state"] = state
    for name, (turn, ratio) in layers.items():
        measured[f"reversal/{name}/cosine"] = turn
        measured[f"reversal/{name}/ratio"] = ratio
    return measured


def _numbers(run, found, plain) -> tuple[dict[str, Any], dict[str, tuple[float, float]]]:
    """What gradients with and without the reversals give, and the same of each reversal."""
    measured: dict[str, Any] = {
        "reversal/cosine": cosine(found.features, plain.features),
        "reversal/ratio": _ratio(found.features, plain.features),
        "reversal/feature_norm": norm(plain.features),
        "reversal/calls": float(len(run.calls)),
    }
    if found.head:
        difference = [a - b for a, b in zip(found.head, plain.head, strict=True)]
        measured["reversal/head_error"] = _ratio(difference, plain.head)
        measured["reversal/head_norm"] = norm(found.head)
    if found.backbone:
        measured["reversal/backbone_cosine"] = cosine(found.backbone, plain.backbone)
        measured["reversal/backbone_ratio"] = _ratio(found.backbone, plain.backbone)
    layers = _by_layer(run, found)
    measured["reversal/strength"] = _strength(run, measured, layers)
    return measured, layers


def _pass_of(model, data) -> ReversalPass | None:
    if isinstance(model, AdversarialModel):
        return None if model.reversal is None else PairPass(model, data)
    kind = ModelPass if isinstance(model, keras.Layer) else ReversalPass
    return kind(model, inputs_of(data))


def _by_differences(run: ReversalPass, found: Gradients) -> Gradients:
    """What the gradient would be without reversals that cannot be taken out."""
    size = norm(found.features)
    if size > 0:
        slope = run.slope([g / size for g in found.features]) / size
        true = [slope * g for g in found.features]
        return dataclasses.replace(
            found, features=true, backbone=[slope * g for g in found.backbone]
        )
    # Nothing arrives; along any other direction there may be something to arrive.
    rng = np.random.default_rng(0)
    random = [rng.normal(size=g.shape) for g in found.features]
    direction = [v / norm(random) for v in random]
    slope = run.slope(direction)
    return dataclasses.replace(found, features=[slope * v for v in direction])


def _by_layer(run: ReversalPass, found: Gradients) -> dict[str, tuple[float, float]]:
    """Cosine and ratio of what leaves each reversal to what enters it, over all of its calls."""
    sides = {}
    for name in dict.fromkeys(call.name for call in run.calls):
        own = [i for i, call in enumerate(run.calls) if call.name == name]
        before, after = [found.before[i] for i in own], [found.after[i] for i in own]
        sides[name] = cosine(before, after), _ratio(before, after)
    return sides


def _strength(run, measured, layers) -> float:
    """The strength that the first reversal says it has, or else the one that it shows."""
    if run.calls:
        shown = next(iter(layers.values()))[1]
        return run.strengths.get(id(run.calls[0].layer), shown)
    return measured["reversal/ratio"] if measured["reversal/cosine"] < 0 else 0.0


def _state(run, found, measured, layers, holds_outside: Callable[[], bool]) -> str:
    turn, ratio = measured["reversal/cosine"], measured["reversal/ratio"]
    if measured["reversal/feature_norm"] * max(run.size, 1.0) < VANISHED:
        return "no gradient" if norm(found.after) * max(run.size, 1.0) < VANISHED else "cut"
    if min([ratio, *(of_layer for _, of_layer in layers.values())]) < NOTHING:
        return _state_without_gradient(run)
    turns = [of_layer for of_layer, _ in layers.values()]
    if abs(turn) < ALIKE:
        return "partly reversed"
    if turn > 0 or max(turns, default=-1.0) > -ALIKE:
        if holds_outside():
            return "graph override"
        if not turns:
            return "forgotten"
        reverses = max(turns) < -ALIKE and len(run.calls) > 1
        return "applied twice" if reverses else "wrong sign"
    if measured.get("reversal/backbone_ratio", ratio) < NOTHING:
        return "cut"
    strength = measured["reversal/strength"]
    return "alive" if abs(ratio - strength) <= TOLERANCE * strength else "wrong strength"


def _state_without_gradient(run: ReversalPass) -> str:
    """Why nothing comes through: the strength, which may yet rise, or something else."""
    layers = [call.layer for call in run.calls if run.strengths.get(id(call.layer)) == 0]
    if not layers:
        return "cut"
    optimizer = getattr(run.model, "optimizer", None)
    trained = optimizer is not None and int(optimizer.iterations) > 0
    rise = all(_rises(layer, trained) for layer in layers)
    return "not begun" if rise else "strength 0"


def _rises(layer: GradientReversal, trained: bool) -> bool:
    """Whether the schedule rises from now on; where training does not count steps, it is stuck."""
    now = int(layer.step)
    if layer.schedule is None or (trained and now == 0):
        return False
    return any(float(layer.schedule(now + later)) > 0 for later in LATER)


def _ratio(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """`||a|| / ||b||`, 0 where there is no `b`, and not a number where one is not finite."""
    size = norm(b)
    return norm(a) / size if size != 0 else 0.0
