"""Methods beside the source alone, over seeds, on one pair of domains."""

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import pandas

from dann.adaptation import METHODS
from dann.checks import check_choice
from dann.data import DomainPair
from dann.experiments.comparison import ACCURACIES, AGREEMENT, Comparison
from dann.selection import Outputs, agreement, average_logits, compute_outputs, info_max, recommend
from dann.selection.outputs import NotFiniteError
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
    batch_size: int = 64,
    optimizer: Callable[[], keras.optimizers.Optimizer] = keras.optimizers.Adam,
    verbose: bool = True,
) -> Comparison:
    """Trains methods beside the source alone and tells which one to keep, without target labels.

    The source alone (`source_only`) is trained too, once a seed, as one of the candidates; and an
    upper bound on the target's labels (`target_only`), if `domains` holds them, which is never
    chosen. The row `average` is the mean of all candidates' class probabilities, seed by seed. What
    to keep is told by `dann.selection.recommend`.

    With one seed all start from the same weights and see the same batches. Each run is
    `dann.training.start(seed)` and one plain `fit` on `domains.batches(batch_size, seed)`.

    Args:
        domains: The data, as `dann.data.arrays` and the other readers make it.
        methods: Names in `dann.adaptation.METHODS`, which take the defaults of their classes. Or
            functions of `(backbone, num_classes)` that return a model, as the classes are; or such
            functions by a name of your own. Defaults to `("dann", "cdan")`.
        backbone: Function without arguments that returns a new built backbone.
        seeds: Seeds of weights and batches; agreement needs two, three to tell runs apart.
        steps: Training steps of each run.
        batch_size: Examples of each domain in a step.
        optimizer: Function without arguments that returns a new optimizer.
        verbose: Whether to print a line a run.

    Returns:
        A `Comparison`: print it, look at its `table` and `chosen`, `plot` it, and keep its
        `classifier`. Accuracies are shares in [0, 1] on the test sets. A run whose outputs are not
        finite has no numbers.

    Raises:
        ValueError: If a method is unknown, or the pair of domains cannot be trained on.

    Example:

    >>> import dann, numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    >>> found = dann.compare(
    ...     dann.data.arrays((x, y), x + 1),
    ...     ["dann"],
    ...     backbone=lambda: dann.networks.mlp_backbone((3,)),
    ...     seeds=[0],
    ...     steps=2,
    ...     verbose=False,
    ... )
    >>> sorted(found.table.index)
    ['average', 'dann', 'source_only']
    >>> found.chosen in found.table.index
    True
    """
    known = domains.target_train_labels is not None and domains.target_test[1] is not None
    oracle = ["target_only"] if known else []
    wanted: dict[str, Any] = {}
    for some in ([_SOURCE_ONLY], methods, oracle):
        wanted |= some if isinstance(some, Mapping) else dict(map(_method, some))
    rows: list[dict[str, Any]] = []
    outputs: dict[str, dict[int, _Outputs]] = {}
    classifiers: dict[str, dict[int, Any]] = {}
    for seed in seeds:
        for setting, method in wanted.items():
            if verbose:
                print(f"{domains.name}: {setting}, seed {seed}", flush=True)
            start(seed, keras.config.dtype_policy().name)
            model: Any = method(backbone(), domains.num_classes)
            _fit(model, optimizer(), domains, steps, batch_size, seed)
            rows.append(_row(setting, seed, model.oracle))
            with contextlib.suppress(NotFiniteError):
                found = _outputs_of(model, domains, features=setting == _SOURCE_ONLY)
                rows[-1] |= _measures(found, domains)
                if not model.oracle:
                    outputs.setdefault(setting, {})[seed] = found
                    classifiers.setdefault(setting, {})[seed] = model.classifier
    if len(outputs) > 1:
        outputs[AVERAGE] = _averages(outputs)
        for seed, found in outputs[AVERAGE].items():
            rows.append(_row(AVERAGE, seed, False) | _measures(found, domains))
    _add_agreement(rows, outputs)
    return Comparison(pandas.DataFrame(rows), _recommended(outputs), classifiers)


class _Outputs(NamedTuple):
    """What scores read of a run, and the logits of the target's test set."""

    read: Outputs
    test_logits: Any


def _method(method):
    if not isinstance(method, str):
        return method.__name__, method
    check_choice("methods", method, METHODS)
    arguments = METHODS.facts[method].get("arguments", {})
    return method, functools.partial(METHODS[method], **arguments)


def _fit(model, optimizer, domains, steps, batch_size, seed):
    compile_model(model, optimizer, Trainer(steps, steps_per_epoch=steps))
    batches = (domains.oracle() if model.oracle else domains).batches(batch_size, seed)
    model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0)


def _row(setting, seed, oracle):
    row = {"run": f"seed {seed}", "setting": setting, "seed": seed, "oracle": oracle}
    return row | dict.fromkeys(ACCURACIES, math.nan)


def _outputs_of(model, domains, features):
    source, target = domains.source_test, domains.target_train
    read = compute_outputs(model, source=source, target=target, features=features, mixed=False)
    test = compute_outputs(model, target=domains.target_test[0], features=False, mixed=False)
    return _Outputs(read, test.target_logits)


def _measures(outputs, domains):
    logits = {"source": outputs.read.source_logits, "target": outputs.test_logits}
    predicted = {domain: values.argmax(axis=1) for domain, values in logits.items()}
    return {"selection/info_max": info_max(outputs.read)} | accuracy_columns(domains, predicted)


def _averages(outputs):
    """By seed, the outputs of the mean class probabilities of all settings that have it."""
    found = {}
    for seed in dict.fromkeys(seed for runs in outputs.values() for seed in runs):
        runs = [of_seeds[seed] for of_seeds in outputs.values() if seed in of_seeds]
        read = Outputs(
            target_logits=average_logits([run.read.target_logits for run in runs]),
            source_logits=average_logits([run.read.source_logits for run in runs]),
            source_labels=runs[0].read.source_labels,
        )
        found[seed] = _Outputs(read, average_logits([run.test_logits for run in runs]))
    return found


def _recommended(outputs):
    candidates = {name: runs for name, runs in outputs.items() if name != AVERAGE}
    if _SOURCE_ONLY not in candidates:  # it diverged
        return None
    return recommend({name: [run.read for run in of.values()] for name, of in candidates.items()})


def _add_agreement(rows, outputs):
    for setting, runs in outputs.items():
        if len(runs) > 1:
            values = agreement([run.read.target_logits for run in runs.values()])
            of = dict(zip(runs, values, strict=True))
            for row in rows:
                if row["setting"] == setting and row["seed"] in of:
                    row[AGREEMENT] = round(of[row["seed"]], 9)  # so that equal ones are equal
