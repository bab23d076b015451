"""Runs diagnostics on a model, and says what they mean."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import is_pair
from dann.checks import check_choice
from dann.data.pairs import Pairs
from dann.diagnostics.catalogue import DIAGNOSTICS, Diagnostic
from dann.diagnostics.passes import adversarial, modes_here
from dann.diagnostics.verdict import Verdict, verdict

QUICK = tuple(name for name, one in DIAGNOSTICS.items() if one.quick)
_MOST = 256  # examples of each domain, of pairs


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The measurements of a model, and the verdict on it; `str` gives one line for each.

    Args:
        verdict: What the measurements mean.
        measurements: Values by name: numbers, words or arrays.
        skip_reasons: Diagnostics that do not fit the model or the data, and why.
        metadata: What was measured, by name: method, source, target, step, ...
    """

    verdict: Verdict
    measurements: Mapping[str, Any]
    skip_reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        width = max((len(name) for name in self.measurements), default=0)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in self.measurements.items()]
        lines += [f"not measured: {name}: {why}" for name, why in self.skip_reasons.items()]
        return "\n".join([str(self.verdict), "", *lines])

    def to_json(self) -> str:
        """Returns the diagnosis as JSON; numbers that are not finite become `null`."""
        said = {"verdict": self.verdict.name, "headline": self.verdict.headline}
        said |= {"reasons": self.verdict.reasons, "advice": self.verdict.advice}
        text = json.dumps({**vars(self), **said}, default=lambda value: value.tolist())
        finite = json.loads(text, parse_constant=lambda name: None)
        return json.dumps(finite, indent=2) + "\n"


def check(
    model: Any,
    data: Any,
    *,
    mode: str | None = None,
    layer: str | None = None,
    probe: str = "logistic",
) -> Diagnosis:
    """Runs the quick diagnostics on a model and says what they mean.

    For any Keras model or layer it runs `certify` and `straight_through_health`; for a model of
    `dann.adaptation` also `gradient_conflict`, `discriminator_vs_probe`, `feature_distance` and, if
    the labels are classes, `label_loss_baselines`. They take some seconds, mostly to trace the
    backward passes. The model does not change.

    Args:
        model: Model of `dann.adaptation`, compiled, or any Keras model or layer.
        data: `({"source": xs, "target": xt}, ys)`, one batch or some hundred examples, or pairs
            of `dann.data.pair`; for another model its inputs.
        mode: As in every diagnostic.
        layer: Name of the reversal in a functional model; see `certify`.
        probe: See `discriminator_vs_probe`.

    Returns:
        Measurements and a verdict; `print` shows them.

    Raises:
        ValueError: If a `dann` model is not compiled, the mode is unknown or no layer has the name.

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
    if isinstance(model, AdversarialModel):
        adversarial(model)
    if mode is not None:
        check_choice("mode", mode, modes_here())
    if layer is not None:
        model.get_layer(layer)  # raises if there is none
    options = {
        "certify": {"mode": mode, "layer": layer},
        "gradient_conflict": {"mode": mode},
        "discriminator_vs_probe": {"probe": probe},
    }
    measured, skip_reasons = measure(model, data, QUICK, None, options)
    return Diagnosis(verdict(measured), measured, skip_reasons)


def measure(
    model: Any,
    data: Any,
    diagnostics: Sequence[str] | Mapping[str, Callable] | None = None,
    step_samples: int | None = 32,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    print_fn: Callable[[str], Any] = lambda line: None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Runs diagnostics on examples, and leaves out those that do not fit the model.

    Args:
        model: The model.
        data: Examples of both domains, as a diagnostic takes them.
        diagnostics: Names in `DIAGNOSTICS`, or functions by any name. Defaults to `None`: all.
        step_samples: Largest number of examples of each domain for a diagnostic that works like a
            training step. Defaults to `32`; `None` uses all examples.
        options: Further arguments of a diagnostic, by its name. Defaults to none.
        print_fn: Gets a line before each diagnostic, such as `print`. Defaults to nothing.

    Returns:
        Values by name, and for each diagnostic that raised an `ArithmeticError`, a `TypeError` or a
        `ValueError` its message.
    """
    found, skip_reasons = {}, {}
    data = as_batch(model, data)
    of_few = data if step_samples is None else first(data, step_samples)
    chosen = choose(list(DIAGNOSTICS) if diagnostics is None else diagnostics)
    for number, (name, function) in enumerate(chosen.items(), 1):
        known = DIAGNOSTICS.get(name, Diagnostic(function))
        print_fn(f"{number}/{len(chosen)} {name}: {known.question}")
        given = (options or {}).get(name, {})
        try:
            with np.errstate(invalid="ignore", over="ignore"):  # the model may have diverged
                found.update(function(model, of_few if known.like_a_step else data, **given))
        except (ArithmeticError, TypeError, ValueError) as error:
            skip_reasons[name] = str(error)
    return found, skip_reasons


def choose(diagnostics: Sequence[str] | Mapping[str, Callable]) -> dict[str, Callable]:
    """Returns diagnostics by name, from names in `DIAGNOSTICS` or from functions by any name."""
    if isinstance(diagnostics, Mapping):
        return dict(diagnostics)
    names = [check_choice("diagnostic", name, sorted(DIAGNOSTICS)) for name in diagnostics]
    return {name: DIAGNOSTICS[name].function for name in names}


def as_batch(model: Any, data: Any) -> Any:
    """Returns data as one batch of arrays: `(inputs, labels)`, or inputs alone.

    Args:
        model: The model that takes them.
        data: A batch `({"source": xs, "target": xt}, ys)`; or pairs of `dann.data.pair`, of which
            it takes the first 256 examples of each domain. Weights are left out. For a model from
            elsewhere than `dann.adaptation` its inputs, alone or with labels.

    Raises:
        ValueError: If it holds no pair of domains with labels of the source.
    """
    if isinstance(data, Pairs):
        data = data.take(_MOST)
    if not isinstance(model, AdversarialModel):
        return data[:2] if isinstance(data, tuple) else data
    if not isinstance(data, tuple | list) or len(data) not in (2, 3) or not is_pair(data[0]):
        raise ValueError(
            "A diagnostic needs both domains: `({'source': inputs, 'target': inputs}, labels)`, or "
            f"the pairs that `dann.data.pair` makes. Received: {type(data).__name__}"
        )
    arrays = keras.tree.map_structure(keras.ops.convert_to_numpy, tuple(data[:2]))
    return arrays[0], np.asarray(arrays[1])


def first(data: Any, count: int) -> tuple[dict[str, Any], np.ndarray]:
    """Returns the first examples of each domain with labels; a labelled target stays whole."""
    x, y = data
    labels = np.asarray(y)
    of_source, others = np.split(labels, [len(keras.tree.flatten(x["source"])[0])])
    few = keras.tree.map_structure(lambda array: array[:count], x)
    parts = {name: part if name == "target_labelled" else few[name] for name, part in x.items()}
    return parts, np.concatenate([of_source[:count], others])


def _shown(value):
    if isinstance(value, str):
        return value
    if np.ndim(value):
        return np.array2string(np.asarray(value), precision=3, threshold=8)
    return f"{value:.4g}"
