"""The quick diagnostics of one's own model, and what they mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.adaptation import AdversarialModel
from dann.diagnostics.certificate import reversal_certificate
from dann.diagnostics.conflict import gradient_conflict
from dann.diagnostics.diagnosis import Diagnosis
from dann.diagnostics.feature_distance import feature_distance
from dann.diagnostics.label_bounds import label_bounds
from dann.diagnostics.modes import mode_of
from dann.diagnostics.parity import way_parity
from dann.diagnostics.straight_through import straight_through_health
from dann.diagnostics.verdict import verdict
from dann.diagnostics.winning import who_is_winning


def check(
    model: Any,
    data: Any,
    *,
    mode: str | None = None,
    before: Sequence[Any] | None = None,
    steps: int = 1,
    probe: str = "logistic",
    seed: int = 0,
    batch_size: int = 256,
) -> Diagnosis:
    """Runs the quick diagnostics on a model and says what they mean.

    Of any Keras model or layer: `reversal_certificate`, `way_parity`, `straight_through_health`.
    Of one of `dann.adaptation` also: `gradient_conflict`, `who_is_winning`, `feature_distance` and,
    if it classifies and the labels are classes, `label_bounds`. They take some seconds, most of it
    to trace the backward passes, and change nothing of the model.

    Args:
        model: Model of `dann.adaptation`, compiled, or any Keras model or layer.
        data: `({"source": xs, "target": xt}, ys)`, one batch or some hundred examples; of another
            model its inputs, alone or with labels.
        mode: `"eager"`, `"graph"` or `"xla"`. Defaults to the one in which `fit` runs the model.
        before: Earlier weights, to count flips; see `straight_through_health`.
        steps: Training steps since then.
        probe: See `who_is_winning`.
        seed: Seed of the probe.
        batch_size: Inputs at a time where there is nothing to differentiate. Defaults to `256`.

    Returns:
        Measurements and a verdict; `print` shows them.

    Raises:
        ValueError: If a `dann` model is not compiled, or a domain has fewer than 4 examples.

    Example:

    >>> import dann, numpy as np
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,), hidden_units=(8,)), num_classes=2)
    >>> model.compile("sgd")
    >>> source = np.random.default_rng(0).normal(size=(32, 2)).astype("float32")
    >>> data = {"source": source, "target": source + 9}, np.arange(32) % 2
    >>> found = dann.diagnostics.check(model, data, mode="eager")
    >>> found.measurements["reversal/state"]
    'alive'
    """
    mode, left_out = mode or mode_of(model), {}
    with np.errstate(invalid="ignore", over="ignore"):  # a model that diverged has a verdict too
        measured: dict[str, Any] = reversal_certificate(model, data, mode=mode)
        measured |= way_parity(model, data, mode=mode)
        measured |= straight_through_health(model, data, before=before, steps=steps)
        if isinstance(model, AdversarialModel):
            if model.reversal is not None and model.backbone.trainable_variables:
                measured |= gradient_conflict(model, data, mode=mode)
            measured |= who_is_winning(model, data, probe=probe, seed=seed, batch_size=batch_size)
            measured |= feature_distance(model, data, seed=seed, batch_size=batch_size)
            if model.num_classes > 1:
                try:
                    measured |= label_bounds(model, data, batch_size=batch_size)
                except ValueError as error:
                    left_out["bounds"] = str(error)
    return Diagnosis(verdict(measured), measured, left_out)
