"""The quick diagnostics of a model, and what they mean."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dann.diagnostics.catalogue import DIAGNOSTICS, in_order
from dann.diagnostics.instruments.batch import as_batch
from dann.diagnostics.instruments.losses import DataError
from dann.diagnostics.verdict import Verdict, verdict


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The measurements of a model, and the verdict on it; `str` gives one line for each.

    Args:
        verdict: What the measurements mean.
        measurements: Values by name: numbers, words or arrays.
        left_out: Diagnostics that do not fit the model or the data, and why.
        about: What was measured, by name: method, source, target, step, ...
    """

    verdict: Verdict
    measurements: Mapping[str, Any]
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        width = max((len(name) for name in self.measurements), default=0)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in self.measurements.items()]
        return "\n".join([str(self.verdict), "", *lines])

    def to_json(self) -> str:
        """Returns the diagnosis as JSON; numbers that are not finite become `null`."""
        verdict = {"verdict": self.verdict.name, "reasons": self.verdict.reasons}
        content = _plain({**vars(self), **verdict})
        return json.dumps(content, indent=2, allow_nan=False) + "\n"


def check(
    model: Any,
    data: Any,
    *,
    mode: str | None = None,
    layer: str | None = None,
    before: Sequence[Any] | None = None,
    steps: int = 1,
    probe: str = "logistic",
    seed: int = 0,
    batch_size: int = 256,
) -> Diagnosis:
    """Runs the quick diagnostics on a model and says what they mean.

    For any Keras model or layer it runs `certify`, `way_parity` and `straight_through_health`; for
    a model of `dann.adaptation` also `gradient_conflict`, `discriminator_vs_probe`,
    `feature_distance` and, if the labels are classes, `label_loss_baselines`. They take some
    seconds, mostly to trace the backward passes. The model does not change.

    Args:
        model: Model of `dann.adaptation`, compiled, or any Keras model or layer.
        data: `({"source": xs, "target": xt}, ys)`, one batch or some hundred examples, or pairs
            of `dann.data.pair`; for another model its inputs.
        layer: Name of the reversal in a functional model; see `certify`.
        before: Earlier weights, to count flips; see `straight_through_health`.
        steps: Training steps since then.
        probe: See `discriminator_vs_probe`.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

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
    sampled = {"seed": seed, "batch_size": batch_size}
    options: dict[str, dict[str, Any]] = {
        "certificate": {"mode": mode, "layer": layer},
        "parity": {"mode": mode},
        "conflict": {"mode": mode},
        "winning": {"probe": probe, **sampled},
        "distance": sampled,
        "bounds": {"batch_size": batch_size},
        "straight_through": {"before": before, "steps": steps},
    }
    data = as_batch(model, data)
    measured: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    with np.errstate(invalid="ignore", over="ignore"):  # a model that diverged has a verdict too
        for name in in_order():
            entry = DIAGNOSTICS.entry(name)
            if entry.facts.get("quick") and entry.facts["models"].holds(model):
                try:
                    measured |= entry.thing(model, data, **options.get(name, {}))
                except DataError as error:
                    left_out[name] = str(error)
    return Diagnosis(verdict(measured), measured, left_out)


def _shown(value):
    if isinstance(value, str):
        return value
    if np.ndim(value):
        return np.array2string(np.asarray(value), precision=3, threshold=8)
    return f"{value:.4g}"


def _plain(value):
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, pathlib.Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
