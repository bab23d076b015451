"""A reversal within a layer or a nested model, judged by the gradients of the weights."""

from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff import gradients
from dann.diagnostics.passes import at_weights, in_mode, to_numpy
from dann.diagnostics.reversal_place import in_words, names_of, random_sum
from dann.diagnostics.reversal_state import Reversal, judged, pull_of, rises_later
from dann.layers import GradientReversal

_NOTHING = 1e-5  # share of the largest slope below which a weight has none


def reversals_in(model: Any) -> list[GradientReversal]:
    """Returns the reversals among a model's layers and the layers within them, each once."""
    # Keras lists nested layers under no public name.
    found = {id(one): one for one in model._flatten_layers() if isinstance(one, GradientReversal)}
    return list(found.values())


def of_inner(model: Any, data: Any, strength: float | None, mode: str) -> dict[str, Any]:
    """Returns the measurements of a reversal within a layer, as `certify`.

    At a strength of -1 it is the identity, and at 0 it stops the gradient. What changes between
    them in the gradients of the weights comes through it. Of several outputs that come from it the
    worst counts.
    """

    names = names_of(model, model(data))  # which builds it
    reversals = reversals_in(model)
    if not reversals:
        return {"reversal/state": "cannot tell"}
    weights = model.trainable_variables
    variables = [*weights, *(one.strength for one in reversals)]

    def sums():
        return [random_sum(one) for one in keras.tree.flatten(model(data))]

    losses = at_weights(model, variables, sums)

    def slopes(*values):
        of_weights, strengths = list(values[: len(weights)]), values[len(weights) :]
        each = [lambda *xs, i=i: losses(*xs, *strengths)[i] for i in range(len(names))]
        return [gradients(one, of_weights) for one in each]

    run, values = in_mode(slopes, mode), [ops.convert_to_tensor(one.value) for one in weights]

    def at(*strengths):
        found = run(*values, *map(ops.convert_to_tensor, strengths))
        return [[to_numpy(slope) for slope in of_output] for of_output in found]

    now = [float(to_numpy(one.strength)) for one in reversals]
    besides = at(*[0.0] * len(now))  # what does not come through the reversal
    given, plain = (_differences(at(*each), besides) for each in (now, [-1.0] * len(now)))
    if strength is None and len({*now}) == 1:
        strength = now[0]
    reversal = Reversal(0.0, len(now), strength, rises_later(reversals[0], False))
    turned = _sizes(plain).any(axis=1)
    if not turned.any():
        return {"reversal/state": "cut", "reversal/calls": float(len(now))}
    judgements = [
        judged(pull_of(given[i]), pull_of(plain[i]), reversal) for i in np.flatnonzero(turned)
    ]
    found = max(judgements, key=lambda one: one["reversal/state"] != "alive")
    found |= in_words(names, turned)
    if found["reversal/state"] in ("alive", "wrong strength"):
        fault = _fault(_sizes(plain) > 0, _sizes(besides) > 0, turned)
        found["reversal/state"] = fault or found["reversal/state"]
    return found


def _differences(some, others):
    return [[a - b for a, b in zip(*pair, strict=True)] for pair in zip(some, others, strict=True)]


def _sizes(slopes):
    """The largest slope of each weight, `(outputs, weights)`; 0 where it is only rounding."""
    sizes = np.array([[np.abs(one).max(initial=0.0) for one in row] for row in slopes])
    return np.where(sizes > _NOTHING * sizes.max(initial=0.0), sizes, 0.0)


def _fault(through, besides, turned):
    """What is wrong with the place, by which weights have a gradient through it and besides.

    Args:
        through: Booleans `(outputs, weights)`.
        besides: The same.
        turned: Which outputs come from the reversal.
    """
    if not besides[turned].any():
        return "behind the discriminator"
    if turned.all():
        return "every output" if len(turned) > 1 else None
    served = besides[~turned].any(axis=0)
    return "within the discriminator" if (through.any(axis=0) & ~served).any() else None
