"""Runs diagnostics on a model, once or during training, and derives a verdict."""

import dataclasses
import functools
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.checks import check_choice
from dann.diagnostics.catalogue import DIAGNOSTICS, Diagnostic
from dann.diagnostics.passes import as_batch, check_method, modes
from dann.diagnostics.straight_through_health import straight_through_health
from dann.diagnostics.verdict import Verdict, verdict
from dann.layers import BinarySign

QUICK = tuple(name for name, diagnostic in DIAGNOSTICS.items() if diagnostic.quick)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The measurements of a model with a verdict; `str` returns one line per measurement.

    Args:
        verdict: The verdict on the measurements.
        measurements: Values by name: numbers, words or arrays.
        skip_reasons: Diagnostics that do not fit the model or the data, with the reasons.
        metadata: Properties of the model and the data by name: method, source, target, step, ...
    """

    verdict: Verdict
    measurements: Mapping[str, Any]
    skip_reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        width = max((len(name) for name in self.measurements), default=0)
        lines = [f"{name:<{width}}  {_format(value)}" for name, value in self.measurements.items()]
        lines += [f"not measured: {name}: {reason}" for name, reason in self.skip_reasons.items()]
        return "\n".join([str(self.verdict), "", *lines])

    def to_json(self) -> str:
        """Returns the diagnosis as JSON; numbers that are not finite become `null`."""
        fields = vars(self) | dataclasses.asdict(self.verdict)
        fields["verdict"] = fields.pop("name")
        text = json.dumps(fields, default=lambda value: value.tolist())
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
    """Runs the quick diagnostics on a model and derives a verdict.

    For any Keras model or layer it runs `certify`, `straight_through_health` and `layer_outputs`;
    for a model of `dann.adaptation` also `gradient_conflict`, `discriminator_vs_probe`,
    `feature_distance` and, if the labels are classes, `label_loss_baselines`. They take a few
    seconds, mostly to trace the backward passes. The model does not change.

    Args:
        model: Compiled model of `dann.adaptation`, or any Keras model or layer.
        data: One batch or a few hundred examples, `({"source": xs, "target": xt}, ys)`, or pairs of
            `dann.data.pair`; for another model its inputs.
        mode: `"eager"`, `"graph"` or `"xla"`. Defaults to `None`: the mode of `fit`.
        layer: Name of a custom reversal layer in a functional model; see `certify`.
        probe: Type of the probe; see `discriminator_vs_probe`.

    Returns:
        The measurements with a verdict, for `print`.

    Raises:
        ValueError: If a `dann` model is not compiled, the mode is unknown or no layer has the name.

    Example:

    >>> import dann, numpy as np
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,), hidden_units=(8,)), num_classes=2)
    >>> model.compile("sgd")
    >>> source = np.random.default_rng(0).normal(size=(32, 2)).astype("float32")
    >>> data = {"source": source, "target": source + 9}, np.arange(32) % 2
    >>> diagnosis = dann.diagnostics.check(model, data, mode="eager")
    >>> diagnosis.measurements["reversal/state"]
    'working'
    """
    # `measure` would skip a diagnostic for these mistakes.
    if isinstance(model, AdversarialModel):
        check_method(model)
    if mode is not None:
        check_choice("mode", mode, modes())
    if layer is not None:
        model.get_layer(layer)
    functions = get_functions(QUICK)
    arguments = {
        "certify": {"mode": mode, "layer": layer},
        "gradient_conflict": {"mode": mode},
        "discriminator_vs_probe": {"probe": probe},
    }
    for name, values in arguments.items():
        functions[name] = functools.partial(functions[name], **values)
    measurements, skip_reasons = measure(model, data, functions, step_samples=None)
    return Diagnosis(verdict(measurements), measurements, skip_reasons)


def measure(
    model: Any,
    data: Any,
    diagnostics: Sequence[str] | Mapping[str, Callable] | None = None,
    step_samples: int | None = 32,
    print_fn: Callable[[str], Any] = lambda line: None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Runs diagnostics on examples and skips those that do not fit the model.

    Args:
        model: The model.
        data: Examples of both domains, as a diagnostic takes them.
        diagnostics: Names in `DIAGNOSTICS`, or functions by any name. Defaults to `None`: all.
        step_samples: Largest number of examples of each domain for a diagnostic that needs the
            memory of a training step. Defaults to `32`; `None` uses all examples.
        print_fn: Function that gets a line before each diagnostic. Defaults to no output.

    Returns:
        Values by name, and the message of each diagnostic that raised an `ArithmeticError`, a
        `TypeError` or a `ValueError`.
    """
    measurements, skip_reasons = {}, {}
    step_data = data = as_batch(model, data)
    if step_samples is not None and isinstance(model, AdversarialModel):
        step_data = take_first(data, step_samples)
    functions = get_functions(list(DIAGNOSTICS) if diagnostics is None else diagnostics)
    layers = model._flatten_layers() if isinstance(model, keras.Layer) else ()
    if not any(isinstance(layer, BinarySign) for layer in layers):
        # This diagnostic would measure nothing.
        functions = {k: v for k, v in functions.items() if v is not straight_through_health}
    for number, (name, function) in enumerate(functions.items(), 1):
        diagnostic = DIAGNOSTICS.get(name, Diagnostic(function))
        print_fn(f"{number}/{len(functions)} {name}: {diagnostic.question}")
        try:
            with np.errstate(invalid="ignore", over="ignore"):  # the model may have diverged
                batch = step_data if diagnostic.needs_step_memory else data
                measurements.update(function(model, batch))
        except (ArithmeticError, TypeError, ValueError) as error:
            skip_reasons[name] = str(error)
    return measurements, skip_reasons


class Diagnostics(keras.callbacks.Callback):
    """Measures a model on one batch while it trains.

    At the end of each epoch the callback adds every number to the logs as `diagnostics/<name>`, for
    the callbacks *after* it in the list, such as a `CSVLogger` or `TensorBoard`. It skips arrays
    and words. The training is the same as without the callback.

    The callback also measures before the first step, so that a diagnostic that does not fit the
    model raises its error there. If a later measurement fails, for example because the training
    diverges, it logs NaN with a warning.

    Args:
        diagnostics: Names of diagnostics, or functions `(model, data) -> {name:
            value}` by any name. Defaults to `("certify", "gradient_conflict")`, which cost a few
            backward passes.
        data: The batch to measure on, `({"source": inputs, "target": inputs}, labels)`, or pairs
            of `dann.data.pair`. Defaults to `None`: `scripts/train.py` sets a batch.

    Raises:
        ValueError: If a diagnostic is unknown, or training begins without `data`.

    Example:

    >>> import keras, numpy as np
    >>> from dann.diagnostics import Diagnostics
    >>> x = np.zeros((4, 2), "float32")
    >>> batch = ({"source": x, "target": x}, np.zeros(4, "int64"))
    >>> callback = Diagnostics(("gradient_conflict", "minmax_spectrum"), batch)
    >>> callbacks = [callback, keras.callbacks.CSVLogger("metrics.csv")]
    """

    def __init__(
        self,
        diagnostics: Sequence[str] | Mapping[str, Callable] = ("certify", "gradient_conflict"),
        data: Any = None,
    ):
        super().__init__()
        self.diagnostics = get_functions(diagnostics)
        self.data = data

    def on_train_begin(self, logs=None):
        self._batch, measurements = as_batch(self.model, self.data), {}
        for function in self.diagnostics.values():
            measurements |= function(self.model, self._batch)  # may raise
        self._names = list(_select_numbers(measurements))

    def on_epoch_end(self, epoch, logs=None):
        measurements, errors = measure(self.model, self._batch, self.diagnostics, None)
        for name, error in errors.items():
            warnings.warn(f"Diagnostic {name!r} is NaN. {error}", stacklevel=2)
        if logs is not None:
            values = dict.fromkeys(self._names, float("nan")) | _select_numbers(measurements)
            # The prefix avoids collisions with logs of the training, such as `label/loss`.
            logs.update({f"diagnostics/{name}": value for name, value in values.items()})


def get_functions(diagnostics: Sequence[str] | Mapping[str, Callable]) -> dict[str, Callable]:
    """Returns diagnostics by name, from names in `DIAGNOSTICS` or from functions by any name."""
    if isinstance(diagnostics, Mapping):
        return dict(diagnostics)
    names = [check_choice("diagnostic", name, sorted(DIAGNOSTICS)) for name in diagnostics]
    return {name: DIAGNOSTICS[name].function for name in names}


def take_first(data: Any, count: int) -> tuple[dict[str, Any], np.ndarray]:
    """Returns the first examples of each domain, and all examples of a labeled target."""
    x, y = data
    num_source = len(keras.tree.flatten(x["source"])[0])
    source_labels, target_labels = np.split(np.asarray(y), [num_source])
    inputs: Any = keras.tree.map_structure(lambda array: array[:count], x)
    if "target_labeled" in x:
        inputs["target_labeled"] = x["target_labeled"]
    return inputs, np.concatenate([source_labels[:count], target_labels])


def _format(value):
    if isinstance(value, str):
        return value
    if np.ndim(value):
        return np.array2string(np.asarray(value), precision=3, threshold=8)
    return f"{value:.4g}"


def _select_numbers(m):
    return {k: float(v) for k, v in m.items() if not isinstance(v, str) and np.ndim(v) == 0}
