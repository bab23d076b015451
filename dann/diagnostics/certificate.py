"""Whether the gradient of the features is really reversed, and if not, what is wrong."""

import itertools
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.diagnostics.backward_pass import Gradients, ModelPass, PairPass, ReversalPass
from dann.diagnostics.differences import by_differences
from dann.diagnostics.modes import as_tensors, inputs_of, mode_of
from dann.diagnostics.reversal_state import ALIKE, Sides, state_of
from dann.diagnostics.taps import cosine, norm


def reversal_certificate(
    model: Any, data: Any, *, mode: str | None = None
) -> dict[str, float | str]:
    """Certifies that gradients are reversed on the way from the discriminator to the features.

    With `g` the gradient of the loss with respect to the features as training sees it, and `h` the
    same with every reversal taken out,

    - `reversal/cosine = <g, h> / (||g|| ||h||)`; healthy: -1
    - `reversal/ratio = ||g|| / ||h||`; healthy: the strength
    - `reversal/strength`: what the reversal itself says
    - `reversal/head_error = ||g_d - h_d|| / ||h_d||` over the weights after the reversal, of a
      `dann` model its `domain_head`'s, which must learn at full rate; healthy: 0.
      `reversal/head_norm = ||g_d||`; healthy: above 0. Both are missing where no trainable weight
      is, the first also where no reversal can be taken out
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
        - `"discriminator reversed"`: the discriminator's own gradient is not what it is without
          the reversal, which lies behind it or within it
        - `"strength 0"`: a reversal lets no gradient through, and no schedule of it is known that
          rises later; `"cut"`: something else does, or a reversal that is no layer
        - `"wrong strength"`, `"partly reversed"`: the length, or the direction, is another
        - `"no gradient"`: the discriminator gives none; `"none"`: the method has no reversal
        - `"cannot tell"`: no reversal is found, and what the differences below tell is not a
          multiple of `g`: a part is reversed, or is not differentiable; or one output is not
          reversed and another gives nothing, as a saturated discriminator does

    Of a model of `dann.adaptation` the loss is the model's own `adversarial_losses`, in a pass with
    `training=True`; the features are those of both domains. Of any other Keras model or layer it is
    a random sum of the outputs, in a pass with `training=True` too, and the features are what
    enters its first reversal; of a plain function, they are its inputs. Reversals are found by
    role, by name (`revers`, `grl`) and by behaviour; where none is found, central differences of
    the loss along `g` stand in for `h`, and tell its sign and its length, which finds a reversal in
    a function too. That takes the rest of the way to be differentiable: along random directions the
    loss must change as `h` says, and `reversal/cosine` is that of the changes where it does not.
    The features are then the inputs, and each output is measured alone, as a reversal is on the way
    from the discriminator's: told is of the first that is reversed, or else of the first.

    At most 3 backward passes, in the mode in which the model trains; where no reversal is found, at
    most 2 an output. In `float16` the loss is multiplied by a power of two, as a loss-scaling
    optimizer does, and what comes out divided; a pass that overflows runs again with a smaller one,
    so that each may become 3. Nothing of the model changes.

    Args:
        model: Model of `dann.adaptation`, any Keras model or layer, or a function of a tensor.
        data: One batch `({"source": xs, "target": xt}, ys)`; for other models and for functions
            their inputs, alone or with labels, which are not looked at.
        mode: `"eager"`, `"graph"` or `"xla"`. Defaults to the one in which `fit` runs the model.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If a `dann` model is not compiled, the mode is unknown, or there is no example.

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
    data = as_tensors(data)
    _check_examples(data)
    run = _pass_of(model, data)
    if run is None:
        return {"reversal/state": "none"}
    if not (run.calls or run.features):  # nothing to differentiate for, as words are
        return {"reversal/state": "cannot tell"}
    mode = mode or mode_of(model)
    passes = [run] if run.calls else run.each_output()
    with np.errstate(invalid="ignore", over="ignore"):  # of gradients that are not finite
        every = [_sides(one, mode) for one in passes]
        told = min(every, key=lambda sides: sides.rank)
        measured, layers = _numbers(*told)

    def holds_outside() -> bool:
        if keras.backend.backend() != "tensorflow":
            return False
        outside = ((one, one.run.measure("graph", outside=True)) for one in every)
        return any(cosine(g.features, one.plain.features) < -ALIKE for one, g in outside)

    state = state_of(told, measured, layers, holds_outside)
    # An output that gives nothing, as a saturated discriminator does, may be the reversed one.
    silent = not told.run.calls and any(sides.is_silent for sides in every)
    measured["reversal/state"] = "cannot tell" if state == "forgotten" and silent else state
    for name, (turn, ratio) in layers.items():
        measured[f"reversal/{name}/cosine"] = turn
        measured[f"reversal/{name}/ratio"] = ratio
    return measured


def _check_examples(data):
    shapes = [tuple(x.shape) for x in keras.tree.flatten(inputs_of(data))]
    if any(shape[:1] == (0,) for shape in shapes):
        raise ValueError(
            "Argument `data` must hold at least one example; without any there is no gradient. "
            f"Received: inputs of shape {', '.join(map(str, shapes))}"
        )


def _sides(run: ReversalPass, mode: str) -> Sides:
    found = run.measure(mode)
    if run.calls:
        plain = run.measure(mode, taken_out=True)
        return Sides(run, found, plain, cosine(found.features, plain.features))
    plain, agreement = by_differences(run, found, mode)
    return Sides(run, found, plain, agreement * cosine(found.features, plain.features))


def _numbers(run, found, plain, turn) -> tuple[dict[str, Any], dict[str, tuple[float, float]]]:
    """What gradients with and without the reversals give, and the same of each reversal."""
    measured: dict[str, Any] = {
        "reversal/cosine": turn,
        "reversal/ratio": _ratio(found.features, plain.features),
        "reversal/feature_norm": norm(plain.features),
        "reversal/calls": float(len(run.calls)),
    }
    own = [True] * len(found.head) if run.unreversed is None else run.unreversed
    if any(own) and run.calls:
        given, expected = (list(itertools.compress(g.head, own)) for g in (found, plain))
        difference = [a - b for a, b in zip(given, expected, strict=True)]
        measured["reversal/head_error"] = _ratio(difference, expected)
    if found.head:
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
        turning = [call for call in run.calls if layers[call.name][0] < 0]
        first = (turning or run.calls)[0]
        return run.strengths.get(id(first.layer), layers[first.name][1])
    return measured["reversal/ratio"] if measured["reversal/cosine"] < 0 else 0.0


def _ratio(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """`||a|| / ||b||`, 0 where there is no `b`, and not a number where one is not finite."""
    size = norm(b)
    return norm(a) / size if size != 0 else 0.0
