"""The diagnostics by name.

A diagnostic is a function `(model, data, ...)` that returns measurements by name and leaves the
model as it is. A file of this folder registers its own:

    @DIAGNOSTICS.register("sharpness", models=ADVERSARIAL, like_a_step=True)
    def sharpness(model, data): ...

These arguments mean the same in every diagnostic:

- `model`: a model of the kind that it measures
- `data`: one batch, `({"source": xs, "target": xt}, ys)`; for a model from elsewhere than
  `dann.adaptation` its inputs. `check`, `measure` and the callback also take pairs of
  `dann.data.pair`
- `mode`: where gradients are computed, `"eager"`, `"graph"` or `"xla"`. Defaults to the mode in
  which `fit` runs the model
- `training`: whether layers work as in a training step, such as batch normalization by the batch.
  Defaults to `True`
- `batch_size`: inputs at a time if there is nothing to differentiate. Defaults to `256`
- `seed`: seed of everything random. Defaults to `0`

A model of another kind raises a `TypeError`.

The facts to register; only `models` is required:

- `models`: the models that it measures, a `ModelKind`
- `quick`: whether it takes a second or so, and `dann.diagnostics.check` runs it
- `like_a_step`: whether it works like a training step; `measure` then gives it few examples
- `healthy`: the healthy ranges of its measurements, a tuple of `HealthyRange`
- `may_be_infinite`: names of measurements that may be infinite
- `order`: a number; results are in this order, those without one last
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.diagnostics.instruments.batch import as_batch
from dann.registry import Registry

Diagnostic = Callable[..., dict[str, Any]]
DIAGNOSTICS: Registry[Diagnostic] = Registry("diagnostic")


@dataclasses.dataclass(frozen=True)
class ModelKind:
    """The models that a diagnostic is for: in words, and as a test of a model."""

    text: str
    holds: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.text


ANY_MODEL = ModelKind("any Keras model", lambda model: True)
ADVERSARIAL = ModelKind(
    "models of `dann.adaptation`", lambda model: isinstance(model, AdversarialModel)
)
CLASSIFIERS = ModelKind(
    "models of `dann.adaptation` with 2 classes or more",
    lambda model: ADVERSARIAL.holds(model) and model.num_classes > 1,
)
REVERSING = ModelKind(
    "models of `dann.adaptation` with a reversal and a trainable backbone",
    lambda model: (
        ADVERSARIAL.holds(model)
        and model.reversal is not None
        and bool(model.backbone.trainable_variables)
    ),
)


def in_order() -> list[str]:
    """Returns the names of all diagnostics in the order of results and tables."""
    return sorted(
        DIAGNOSTICS, key=lambda name: DIAGNOSTICS.entry(name).facts.get("order", math.inf)
    )


def choose(
    diagnostics: Sequence[str] | Mapping[str, Callable],
) -> dict[str, Callable[..., dict[str, Any]]]:
    """Returns diagnostics by name, from names in `DIAGNOSTICS` or from functions by any name."""
    if isinstance(diagnostics, Mapping):
        return dict(diagnostics)
    return {name: DIAGNOSTICS.entry(name).thing for name in diagnostics}


def measure(
    model: Any,
    data: Any,
    diagnostics: Sequence[str] | Mapping[str, Callable] | None = None,
    few: int = 32,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Runs diagnostics on examples, and leaves out those that do not fit the model.

    Args:
        model: The model.
        data: Examples of both domains, as a diagnostic takes them.
        diagnostics: Names in `DIAGNOSTICS`, or functions by any name. Defaults to `None`: all.
        few: The most examples of each domain for a diagnostic that works like a training step.
            Defaults to `32`.

    Returns:
        Values by name, and for each diagnostic that raised a `TypeError` or `ValueError` its
        message.
    """
    found, left_out = {}, {}
    data = as_batch(model, data)
    of_few = first(data, few)
    for name, function in choose(in_order() if diagnostics is None else diagnostics).items():
        like_a_step = name in DIAGNOSTICS and DIAGNOSTICS.entry(name).facts.get("like_a_step")
        try:
            found.update(function(model, of_few if like_a_step else data))
        except (TypeError, ValueError) as error:
            left_out[name] = str(error)
    return found, left_out


def first(data: Any, count: int) -> tuple[dict[str, Any], np.ndarray]:
    """Returns the first examples of each domain with labels; a labelled target stays whole."""
    x, y = data
    labels = np.asarray(y)
    of_source, others = np.split(labels, [len(keras.tree.flatten(x["source"])[0])])
    few = keras.tree.map_structure(lambda array: array[:count], x)
    parts = {name: part if name == "target_labelled" else few[name] for name, part in x.items()}
    return parts, np.concatenate([of_source[:count], others])


def scalars(measurements: Mapping[str, Any]) -> dict[str, float]:
    """Returns the single numbers among measurements."""
    return {
        name: float(value)
        for name, value in measurements.items()
        if not isinstance(value, str) and np.ndim(value) == 0
    }
