"""Methods beside the source alone, over seeds, on one pair of domains."""

import contextlib
import functools
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import pandas

from dann.adaptation import METHODS
from dann.checks import check_choice
from dann.data import DomainPair
from dann.experiments.comparison import ACCURACIES, AGREEMENT, Comparison
from dann.selection import agreement, info_max, outputs_of
from dann.selection.outputs import NotFiniteError
from dann.training import compile_model, start
from dann.training.predictions import accuracies

Method = Callable[[Any, int], Any]


def compare(
    domains: DomainPair,
    methods: Sequence[str | Method] | Mapping[str, Method] = ("dann", "cdan"),
    *,
    backbone: Callable[[], Any],
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 1000,
    batch_size: int = 64,
    optimizer: Callable[[], keras.optimizers.Optimizer] = keras.optimizers.Adam,
    verbose: bool = True,
) -> Comparison:
    """Trains methods beside the source alone and tells which one to keep, without target labels.

    The source alone (`source_only`) is trained too, once a seed, as one of the candidates; and an
    upper bound on the target's labels (`target_only`), if `domains` holds them, which is never
    chosen. With one seed all start from the same weights and see the same batches. Each run is
    `dann.training.start(seed)` and one plain `fit` on `domains.batches(batch_size, seed)`.

    Args:
        domains: The data, as `dann.data.arrays` and the other readers make it.
        methods: Names in `dann.adaptation.METHODS`, which take the defaults of their classes; or
            functions of `(backbone, num_classes)` that return a model, as the classes are; or such
            functions by a name of your own. Defaults to `("dann", "cdan")`.
        backbone: Function without arguments that returns a new built backbone.
        seeds: Seeds of weights and batches; agreement needs two, three to tell runs apart.
        steps: Training steps of each run.
        batch_size: Examples of each domain in a step.
        optimizer: Function without arguments that returns a new optimizer.
        verbose: Whether to print a line a run.

    Returns:
        A `Comparison`: print it, look at its `table` and `chosen`, and `plot` it. Accuracies are
        shares in [0, 1] on the test sets. A run whose outputs are not finite has no numbers.

    Raises:
        ValueError: If a method is unknown, or the pair of domains cannot be trained on.

    Example:

    >>> import dann, numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    >>> found = dann.compare(
    ...     dann.data.arrays((x, y), (x + 1, y)),
    ...     ["dann"],
    ...     backbone=lambda: dann.networks.mlp_backbone((3,)),
    ...     seeds=[0, 1],
    ...     steps=2,
    ...     verbose=False,
    ... )
    >>> found.table["target/accuracy"]["count"].to_dict()
    {'source_only': 2, 'dann': 2, 'target_only': 2}
    """
    known = domains.target_train_labels is not None and domains.target_test[1] is not None
    oracle = ["target_only"] if known else []
    wanted: dict[str, Any] = {**_named(["source_only"]), **_named(methods), **_named(oracle)}
    rows: list[dict[str, Any]] = []
    outputs = {}
    for seed in seeds:
        for setting, method in wanted.items():
            if verbose:
                print(f"{domains.name}: {setting}, seed {seed}", flush=True)
            start(seed, keras.config.dtype_policy().name)
            model: Any = method(backbone(), domains.num_classes)
            _fit(model, optimizer(), domains, steps, batch_size, seed)
            row = {"run": f"seed {seed}", "setting": setting, "seed": seed, "oracle": model.oracle}
            row |= dict.fromkeys(ACCURACIES, math.nan)
            with contextlib.suppress(NotFiniteError):
                outputs[setting, seed], target_logits = _outputs(model, domains)
                row |= _measures(outputs[setting, seed], target_logits, domains)
            rows.append(row)
    _add_agreement(rows, outputs)
    return Comparison(pandas.DataFrame(rows))


def _named(methods):
    """Functions that make a model, by name."""
    if isinstance(methods, Mapping):
        return dict(methods)
    return dict(_method(method) for method in methods)


def _method(method):
    if not isinstance(method, str):
        return method.__name__, method
    check_choice("methods", method, METHODS)
    arguments = METHODS.facts[method].get("arguments", {})
    return method, functools.partial(METHODS[method], **arguments)


def _fit(model, optimizer, domains, steps, batch_size, seed):
    trainer = types.SimpleNamespace(
        steps=steps,
        steps_per_epoch=steps,
        steps_per_execution="auto",
        jit_compile="auto",
        run_eagerly=False,
    )
    compile_model(model, optimizer, trainer)
    batches = (domains.oracle() if model.oracle else domains).batches(batch_size, seed)
    model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0)


def _outputs(model, domains):
    """What scores read, and the logits of the target's test set."""
    settings: Any = {"features": False, "mixed": False}
    found = outputs_of(model, source=domains.source_test, target=domains.target_train, **settings)
    return found, outputs_of(model, target=domains.target_test[0], **settings).target_logits


def _measures(outputs, target_logits, domains):
    tests = {
        "source": (outputs.source_labels, outputs.source_logits),
        "target": (domains.target_test[1], target_logits),
    }
    found = {"selection/info_max": info_max(outputs)}
    for domain, (labels, logits) in tests.items():
        if labels is not None:
            predicted = logits.argmax(axis=1)
            for name, value in accuracies(labels, predicted).items():
                found[f"{domain}/{name}"] = value
    return found


def _add_agreement(rows, outputs):
    for setting in {row["setting"] for row in rows if not row["oracle"]}:
        runs = [row for row in rows if row["setting"] == setting]
        runs = [row for row in runs if (setting, row["seed"]) in outputs]
        if len(runs) > 1:
            logits = [outputs[setting, row["seed"]].target_logits for row in runs]
            for row, value in zip(runs, agreement(logits), strict=True):
                row[AGREEMENT] = round(value, 9)  # so that equal ones are equal
