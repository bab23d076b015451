"""Trains several methods on one pair of domains, over seeds, and compares them."""

import contextlib
import functools
import itertools
import math
import reprlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import pandas

from dann.adaptation import METHODS, TargetOnly
from dann.adaptation.prediction import predict
from dann.checks import check_choice, check_integer
from dann.data import DomainPair
from dann.experiments.comparison import ACCURACIES, AGREEMENT, Comparison
from dann.experiments.rows import compute_agreement
from dann.selection import Outputs, average_logits, compute_outputs, info_max, recommend
from dann.selection.outputs import NotFiniteError, check_finite_outputs
from dann.selection.recommend import AVERAGE
from dann.training import Trainer, compile_model, start
from dann.training.evaluation import accuracy_columns

Method = Callable[[Any, int], Any]
_SOURCE_ONLY = "source_only"


def compare(
    domains: DomainPair,
    methods: Sequence[str | Method] | Mapping[str, Method] = ("dann", "cdan"),
    *,
    backbone: Callable[[], Any],
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 1000,
    batch_size: int | None = None,
    optimizer: Callable[[], keras.optimizers.Optimizer] = keras.optimizers.Adam,
    verbose: bool = True,
) -> Comparison:
    """Trains several methods and recommends which one to keep, without target labels.

    Also trains a source-only model (`source_only`) for each seed, as one of the candidates. If
    `domains` has target labels, also trains an upper bound that learns from them (`target_only`),
    which is never recommended. The row `average` is the mean of the class
    probabilities of all candidates with one seed. `dann.selection.recommend` makes the
    recommendation.

    Runs with the same seed start from the same weights and see the same batches. Each run is
    `dann.training.start(seed)` and one plain `fit` on `domains.batches(batch_size, seed)`.

    Args:
        domains: The data, as `dann.data.arrays` and the other readers return it.
        methods: Names in `dann.adaptation.METHODS`, which use the default arguments of their
            classes; or functions of `(backbone, num_classes)` that return a model, such as the
            classes; or a dict from names to such functions. `MDAN` receives the number of sources
            of the data. Defaults to `("dann", "cdan")`.
        backbone: Function without arguments that returns a new built backbone.
        seeds: Seeds of weights and batches. Agreement needs at least two seeds, and at least three
            to rank the runs of one setting.
        steps: Training steps per run.
        batch_size: Number of examples per domain and step. Defaults to `None`: 64, or all examples
            of a smaller source.
        optimizer: Function without arguments that returns a new optimizer.
        verbose: Whether to print one line per run.

    Returns:
        A `Comparison`: print it, read its `table` and `choice`, `plot` it, and keep its
        `classifier`. Accuracies are shares in [0, 1] on the test sets. A run whose outputs are not
        finite has no numbers.

    Raises:
        TypeError: If an argument has an unexpected type.
        ValueError: If a method is unknown, or a method cannot train on the pair of domains.

    Example:

    >>> import dann, numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    >>> comparison = dann.compare(
    ...     dann.data.arrays((x, y), x + 1),
    ...     ["dann"],
    ...     backbone=lambda: dann.networks.mlp_backbone((3,)),
    ...     seeds=[0],
    ...     steps=2,
    ...     verbose=False,
    ... )
    >>> sorted(comparison.table.index)
    ['average', 'dann', 'source_only']
    >>> comparison.choice in comparison.table.index
    True
    """
    _check_types(domains, methods, backbone, seeds, optimizer)
    check_integer("steps", steps, low=1)
    settings = _resolve_methods([_SOURCE_ONLY], domains) | _resolve_methods(methods, domains)
    if domains.target_train_labels is not None and domains.target_test[1] is not None:
        settings |= _resolve_methods(["target_only"], domains)
    rows: list[dict[str, Any]] = []
    runs: dict[tuple[str, int], _RunOutputs] = {}
    classifiers: dict[str, dict[int, Any]] = {}
    for seed, (setting, method) in itertools.product(seeds, settings.items()):
        if verbose:
            print(f"{domains.name}: {setting}, seed {seed}", flush=True)
        # Every method starts from the same weights and random state.
        start(seed, keras.config.dtype_policy().name)
        model: Any = method(backbone(), domains.num_classes)
        compile_model(model, optimizer(), Trainer(steps, steps_per_epoch=steps))
        is_oracle = isinstance(model, TargetOnly)
        batches = (domains.oracle() if is_oracle else domains).batches(batch_size, seed)
        with warnings.catch_warnings():
            if rows:  # the first run warned of the scale of the inputs
                warnings.filterwarnings("ignore", "the inputs are from")
            model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0)
        rows.append(_make_row(setting, seed, is_oracle))
        with contextlib.suppress(NotFiniteError):  # a diverged run keeps its row without numbers
            run = _compute_run_outputs(model, domains, features=setting == _SOURCE_ONLY)
            rows[-1] |= _measure(run, domains)
            if not is_oracle:
                runs[setting, seed] = run
                classifiers.setdefault(setting, {})[seed] = model.classifier
    candidates: dict[str, list[Outputs]] = {}
    for (setting, _), run in runs.items():
        candidates.setdefault(setting, []).append(run.outputs)
    if len(candidates) > 1:
        for seed in dict.fromkeys(seed for _, seed in runs):  # a set would lose the order
            run = _average([run for (_, run_seed), run in runs.items() if run_seed == seed])
            rows.append(_make_row(AVERAGE, seed, False) | _measure(run, domains))
            runs[AVERAGE, seed] = run
    agreements = compute_agreement(
        ((setting, seed), setting, seed, run.outputs.target_logits)
        for (setting, seed), run in runs.items()
    )
    for row in rows:
        if (row["setting"], row["seed"]) in agreements:
            row[AGREEMENT] = agreements[row["setting"], row["seed"]]
    # Without a source-only run, which diverged, nothing is recommended.
    recommendation = recommend(candidates) if _SOURCE_ONLY in candidates else None
    return Comparison(pandas.DataFrame(rows), recommendation, classifiers)


class _RunOutputs(NamedTuple):
    """The outputs that scores read, and the logits on the target's test set."""

    outputs: Outputs
    test_logits: Any


def _check_types(domains, methods, backbone, seeds, optimizer):
    """Raises a `TypeError` for arguments that would fail within or after the first run."""
    is_optimizer = isinstance(optimizer, keras.optimizers.Optimizer)
    made_by = "a function without arguments that returns a new"
    checks = {
        "domains": (
            domains,
            isinstance(domains, DomainPair),
            "the result of `dann.data.arrays((inputs, labels), target_inputs)` or another reader",
        ),
        "methods": (
            methods,
            isinstance(methods, Iterable) and not isinstance(methods, str),
            "a list, such as ['dann', 'cdan']",
        ),
        "backbone": (
            backbone,
            callable(backbone) and not isinstance(backbone, keras.Layer),
            f"{made_by} backbone, such as `lambda: dann.networks.mlp_backbone((3,))`",
        ),
        "seeds": (seeds, isinstance(seeds, Iterable), "a list of integers, such as `range(3)`"),
        "optimizer": (
            optimizer,
            callable(optimizer) and not is_optimizer,
            f"{made_by} optimizer, such as `lambda: keras.optimizers.Adam(0.001)`",
        ),
    }
    for name, (value, is_valid, expected) in checks.items():
        if not is_valid:
            received = f"{name}={reprlib.repr(value)}"
            raise TypeError(f"Expected `{name}` to be {expected}. Received: {received}.")


def _resolve_methods(methods, domains) -> dict[str, Any]:
    """Returns functions of `(backbone, num_classes)` by name."""
    functions = dict(methods) if isinstance(methods, Mapping) else {}
    for method in () if isinstance(methods, Mapping) else methods:
        if isinstance(method, str):
            check_choice("methods", method, METHODS)
            arguments = METHODS.metadata[method].get("arguments", {})
            functions[method] = functools.partial(METHODS[method], **arguments)
        else:
            functions[getattr(method, "__name__", type(method).__name__)] = method
    for name, function in functions.items():
        if not callable(function) or isinstance(function, keras.Layer):
            raise TypeError(
                "Expected methods to be names or functions of `(backbone, num_classes)`. Received: "
                f"{function!r}."
            )
        arguments = getattr(getattr(function, "func", function), "arguments", ())
        if "num_sources" in arguments and "num_sources" not in getattr(function, "keywords", {}):
            functions[name] = functools.partial(function, num_sources=domains.num_sources)
    return functions


def _make_row(setting, seed, oracle):
    row = {"run": f"seed {seed}", "setting": setting, "seed": seed, "oracle": oracle}
    return row | dict.fromkeys(ACCURACIES, math.nan)  # the columns that every comparison has


def _compute_run_outputs(model, domains, features):
    source, target = domains.source_test, domains.target_train
    outputs = compute_outputs(model, source=source, target=target, features=features, mixed=False)
    test_logits = predict(model.classifier, domains.target_test[0])
    return _RunOutputs(outputs, check_finite_outputs("logits", test_logits))


def _measure(run, domains):
    logits = {"source": run.outputs.source_logits, "target": run.test_logits}
    predicted = {domain: values.argmax(axis=1) for domain, values in logits.items()}
    return {"selection/info_max": info_max(run.outputs)} | accuracy_columns(domains, predicted)


def _average(runs):
    """Returns the outputs of a model with the mean class probabilities of all runs."""
    outputs = Outputs(
        target_logits=average_logits([run.outputs.target_logits for run in runs]),
        source_logits=average_logits([run.outputs.source_logits for run in runs]),
        source_labels=runs[0].outputs.source_labels,
    )
    return _RunOutputs(outputs, average_logits([run.test_logits for run in runs]))
