"""A reversal within a layer or a nested model, judged by the gradients of the weights."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff import gradients
from dann.diagnostics.passes import as_vector, at_weights, in_mode, to_numpy
from dann.diagnostics.reversal_place import in_words, random_sum
from dann.diagnostics.reversal_state import Reversal, judged, pull_of, rises_later
from dann.layers import GradientReversal

_NOTHING = 1e-5  # share of the largest slope below which a weight has none


def reversals_in(model: Any) -> list[GradientReversal]:
    """Returns the reversals among a model's layers and the layers within them, each once."""
    layers = dict.fromkeys(model._flatten_layers())  # Keras lists them under no public name
    return [one for one in layers if isinstance(one, GradientReversal)]


def of_inner(model: Any, data: Any, strength: float | None, mode: str) -> dict[str, Any]:
    """Returns the measurements of a reversal within a layer, as `certify`.

    At a strength of -1 it is the identity, and at 0 it stops the gradient. What changes between
    them in the gradients of the weights comes through it. Of several outputs that come from it the
    worst counts.
    """
    outputs = model(data)  # which builds it
    reversals = reversals_in(model)
    if not reversals:
        return {"reversal/state": "unknown"}
    weights, count = model.trainable_variables, len(keras.tree.flatten(outputs))
    variables = [*weights, *(one.strength for one in reversals)]
    sums = at_weights(
        model, variables, lambda: [random_sum(one) for one in keras.tree.flatten(model(data))]
    )

    def slopes(values, strengths):
        each = [lambda *xs, i=i: sums(*xs, *strengths)[i] for i in range(count)]
        return [gradients(one, values) for one in each]

    run, values = in_mode(slopes, mode), [ops.convert_to_tensor(one.value) for one in weights]

    def at(strengths):
        """The slopes of each output, `(outputs, numbers of the weights)`."""
        found = run(values, [ops.convert_to_tensor(one) for one in strengths])
        return np.stack([as_vector(one) for one in found])

    now = [float(to_numpy(one.strength)) for one in reversals]
    besides = at([0.0] * len(now))  # what does not come through the reversal
    given, plain = (at(strengths) - besides for strengths in (now, [-1.0] * len(now)))
    if not np.isfinite(np.stack([given, plain, besides])).all():
        return {"reversal/state": "not finite"}
    if strength is None and len({*now}) == 1:
        strength = now[0]
    reversal = Reversal(0.0, len(now), strength, rises_later(reversals[0], False))
    # Whether there are slopes by output and weight, through the reversal and besides.
    through, others = (_by_weight(one, weights) for one in (plain, besides))
    turned = through.any(axis=1)
    if not turned.any():
        return {"reversal/state": "detached", "reversal/calls": float(len(now))}
    every = [
        judged(pull_of([given[i]]), pull_of([plain[i]]), reversal) for i in np.flatnonzero(turned)
    ]
    found = max(every, key=lambda one: one["reversal/state"] != "alive")
    found |= in_words(model, outputs, turned)
    if found["reversal/state"] in ("alive", "wrong strength"):
        found["reversal/state"] = _fault(through, others, turned) or found["reversal/state"]
    return found


def _by_weight(slopes, weights):
    """Whether each weight has a slope that is more than rounding."""
    starts = np.cumsum([0, *(np.prod(one.shape, dtype=int) for one in weights)])[:-1]
    sizes = np.maximum.reduceat(np.abs(slopes), starts, axis=1)
    return sizes > _NOTHING * sizes.max(initial=0.0)


def _fault(through, besides, turned):
    """What is wrong with the place, by which weights have a gradient through it and besides.

    Args:
        through: Booleans `(outputs, weights)`.
        besides: The same.
        turned: Which outputs come from the reversal.
    """
    if not besides[turned].any():
        return "behind the discriminator"
    served = besides[~turned].any(axis=0)
    if not served.any():  # other outputs are none, or have no gradient, as numbers of classes
        return "every output" if turned.sum() > 1 else None
    before = through.any(axis=0)
    # If the others serve none of them, they train on detached features.
    alone = (before & ~served).any() and (before & served).any()
    return "within the discriminator" if alone else None
