"""Trains several methods on one pair of domains, over seeds, and compares them."""

import contextlib
import inspect
import itertools
import math
import reprlib
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import pandas

from dann.adaptation.prediction import NotFiniteError, predict
from dann.checks import check_integer
from dann.data import DomainPair
from dann.data.probes import FOLDS, probe_domains
from dann.experiments.compared_runs import (
    CLASSIFIERS,
    CONTROL,
    SHARES,
    SOURCE_ONLY,
    STANDARDIZED,
    TARGET_ONLY,
    ComparedRun,
    Method,
    RunContext,
    list_defaults,
    resolve_methods,
    train_on_average,
)
from dann.experiments.comparison import (
    AGREEMENT,
    BOOSTING,
    INFO_MAX,
    Comparison,
)
from dann.experiments.rows import compute_agreement
from dann.selection import info_max
from dann.selection.recommend import (
    DISTILLED_AVERAGE,
    recommend_distilled,
    recommend_run,
    to_probabilities,
)
from dann.training.evaluation import accuracy_columns, predict_target, to_predictions
from dann.training.preparation import hide_retracing


@hide_retracing()
def compare(
    domains: DomainPair | Iterable[DomainPair],
    methods: Sequence[str | Method] | Mapping[str, Method] | None = None,
    *,
    backbone: Callable[[], Any],
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 1000,
    batch_size: int | None = None,
    optimizer: Callable[[], keras.optimizers.Optimizer] | None = None,
    verbose: bool = True,
) -> Comparison:
    """Trains several methods and recommends one network, without target labels.

    Also trains a source-only model (`source_only`) for each seed, as one of the candidates. If
    `domains` has target labels, also trains an upper bound that learns from them (`target_only`),
    which is never recommended. `dann.selection.recommend` explains the choice of a run. If a change
    of the class proportions alone explains the shift, only runs of `adapted_shares` are candidates.
    Otherwise, if at least two runs adapt, the recommended network is `distilled_average`: a new one
    that `dann.training.distill` trains to predict the average of these runs.

    Runs with the same seed start from the same weights and see the same batches. Each run clears
    the state of Keras, sets all seeds, and calls `fit` on `domains.batches(batch_size, seed)`.

    Args:
        domains: The data, as `dann.data.arrays` and the other readers return it. Or an iterable of
            pairs, such as one pair per domain to leave out; see `dann.data.leave_one_domain_out`.
            The result then has one row per pair, setting and seed, with the columns `fold` (the
            number of the pair) and `target`, and no `classifier`. A pair is read when the previous
            pair is finished, so a generator does not keep all pairs in memory.
        methods: Names; or functions of `(backbone, num_classes)` that return a model, such as the
            classes; or a dict from names to such functions. `MDAN` receives the number of sources
            of the data. Names are those of methods, such as `"cdan"`, with the default arguments of
            their classes, and

            - `"standardized"`: source only on inputs whose domains are standardized separately, as
              by `domains.standardize("each")`. Images of the target get the mean and variance of
              the source instead, because networks rescale pixels. It is never recommended, because
              its network needs standardized inputs.
            - names of regularizers, such as `"coral"`: source only with this regularizer
            - `"control"`: DANN with its reversal off, `strength=0`; never recommended
            - `"adapted_shares"`: the source-only run, changed by `dann.adapt_shares`. It has no
              row if the estimated proportions are rejected.
            - `"gradient_boosting"`: `HistGradientBoostingClassifier` of scikit-learn on the source,
              for tables only. It is not a network and is never recommended.

            Defaults to `None`: `"standardized"`, `"coral"`, `"mcc"`, `"control"`, `"dann"`,
            `"cdan"`, `"sdat"`, `"adapted_shares"` and `"gradient_boosting"`, without those that
            the data do not support. In regression, functions also receive the keyword argument
            `label_head`, a head with one output in the scale of the labels.
        backbone: Function without arguments that returns a new built backbone.
        seeds: Seeds of weights and batches. Agreement and intervals need at least two seeds, and
            agreement at least three to rank the runs of one setting. Defaults to `(0, 1, 2)`.
        steps: Training steps per run. Defaults to `1000`.
        batch_size: Number of examples per domain and step. Defaults to `None`: 64, or all examples
            of a smaller source.
        optimizer: Function without arguments that returns a new optimizer. Defaults to `None`: Adam
            with a learning rate of 0.001, and for methods with a gradient reversal with
            `beta_1=0.5`, because their losses oscillate with Adam's 0.9; see the page "Oscillating
            losses".
        verbose: Whether to print one line per run. Defaults to `True`.

    Returns:
        A `Comparison`. `print` shows the table, `plot` draws it, and `save` writes the recommended
        `classifier`. Accuracies are in [0, 1], on the test sets; regression has the mean absolute
        error `mae`, in units of the labels, and `r2` instead. `seconds` is the wall time of the
        training and the predictions of a run, without the baseline of `adapted_shares`. A run
        whose outputs are not finite has no numbers.

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
    ['dann', 'source_only']
    >>> comparison.classifier.output_shape
    (None, 2)
    """
    if isinstance(domains, Iterable):

        def compare_fold(pair):
            _check_types(pair, methods, backbone, seeds, optimizer)
            options = {"backbone": backbone, "seeds": seeds, "steps": steps, "verbose": verbose}
            options |= {"batch_size": batch_size, "optimizer": optimizer}
            return pair, compare(pair, methods, **options)

        return _join_folds(map(compare_fold, domains))
    _check_types(domains, methods, backbone, seeds, optimizer)
    seeds = [check_integer("seeds", seed, low=0) for seed in seeds]
    if len({*seeds}) < len(seeds):
        raise ValueError(f"Expected different seeds. Received: {seeds}")
    check_integer("steps", steps, low=1)
    settings = resolve_methods([SOURCE_ONLY], domains)
    settings |= resolve_methods(list_defaults(domains) if methods is None else methods, domains)
    if domains.target_train_labels is not None and domains.target_test[1] is not None:
        settings |= resolve_methods([TARGET_ONLY], domains)
    context = RunContext(domains, backbone, optimizer, steps, batch_size)
    if domains.is_regression and methods is None:
        context.notes.append(f"regression: without {', '.join(CLASSIFIERS)}, which need classes")
    measure = "mae" if domains.is_regression else "accuracy"
    rows: list[dict[str, Any]] = []
    runs: dict[tuple[str, str], ComparedRun] = {}
    plan = [*itertools.product(seeds, settings.items())]
    for number, (seed, (setting, train_setting)) in enumerate(plan, 1):
        if verbose:
            print(f"{number}/{len(plan)} {domains.name}: {setting}, seed {seed}", flush=True)
        row = {"run": f"seed {seed}", "setting": setting, "baseline": SOURCE_ONLY, "seed": seed}
        row |= dict.fromkeys(["oracle", f"source/{measure}", f"target/{measure}"], math.nan)
        begin = time.perf_counter()
        with warnings.catch_warnings(), contextlib.suppress(NotFiniteError):
            if rows:  # the first run warned of the scale of the inputs
                warnings.filterwarnings("ignore", "the inputs are from")
            run = train_setting(context, seed)
            if run is None:
                continue
            if setting == SOURCE_ONLY:
                context.baselines[seed] = run
            runs[setting, row["run"]] = run
            row |= _measure(run, domains) | {"seconds": time.perf_counter() - begin}
        rows.append(row)  # a diverged run has no numbers
    candidates = {key: run for key, run in runs.items() if not run.is_oracle}
    if not domains.is_regression:
        agreements = compute_agreement(
            (key, *key, run.outputs.target_logits)
            for key, run in candidates.items()
            if key[0] != BOOSTING
        )
        for row in rows:
            row[AGREEMENT] = agreements.get((row["setting"], row["run"]), math.nan)
    if not context.baselines:  # they diverged
        return Comparison(pandas.DataFrame(rows), notes=context.notes)
    baseline = next(iter(context.baselines.values())).outputs
    features = baseline.source_features, baseline.target_features
    probe = probe_domains(*features) if min(map(len, features)) >= FOLDS else None
    if probe is None:
        context.notes.append("a shift is assumed: too few examples of a domain to probe")
    probabilities = {
        key: to_probabilities(run.outputs.target_logits)
        for key, run in candidates.items()
        if key[0] not in (STANDARDIZED, CONTROL, BOOSTING)
    }
    adapted = {key: values for key, values in probabilities.items() if key[0] == SHARES}
    if len(adapted) == len(context.baselines) and (probe is None or probe.low > 0.5):
        probabilities = adapted
        context.notes.append("a change of the class proportions alone explains the shift")
    recommendation = recommend_run(probe, probabilities, [SOURCE_ONLY])
    run = runs[recommendation.key]
    (row,) = (row for row in rows if (row["setting"], row["run"]) == recommendation.key)
    probed = {}
    if probe is not None and recommendation.setting not in (SOURCE_ONLY, SHARES):
        source = predict(run.backbone, domains.source_test[0])
        separation = probe_domains(source, predict(run.backbone, domains.target_train))
        probed = {"probe/low": separation.low, "probe/high": separation.high}
    if recommendation.average is not None and recommendation.setting != SHARES:
        begin = time.perf_counter()
        run = train_on_average(context, row["seed"], recommendation.average)
        recommendation = recommend_distilled(recommendation, row["run"], steps)
        measures = {AGREEMENT: math.nan, "seconds": time.perf_counter() - begin}
        rows.append(row | {"setting": DISTILLED_AVERAGE} | _measure(run, domains) | measures)
    row |= probed  # of the run that is closest to the average
    return Comparison(
        pandas.DataFrame(rows),
        recommendation=recommendation,
        classifier=run.classifier,
        predictions=predict_target(run.classifier, domains),
        encoding=domains.encoding,
        standardizer=domains.standardizer,
        notes=context.notes,
    )


def _join_folds(comparisons):
    """Returns the runs of several comparisons, of pairs of domains, as one comparison."""
    frames, notes = [], []
    for fold, (domains, comparison) in enumerate(comparisons):
        frames.append(comparison.runs.assign(fold=fold, target=domains.target))
        if comparison.recommendation is not None:
            setting, run = comparison.recommendation.key
            origin = "a new network" if setting == DISTILLED_AVERAGE else f"in {run}"
            notes.append(f"recommended for {domains.target}: {setting}, {origin}")
    if not frames:
        raise ValueError("Expected at least one pair of domains. Received: no pair")
    return Comparison(pandas.concat(frames, ignore_index=True), notes=notes)


def _measure(run, domains):
    """Returns the columns of a row that describe the predictions of a run."""
    logits = {"source": run.outputs.source_logits, "target": run.test_logits}
    predicted = {domain: to_predictions(values) for domain, values in logits.items()}
    row = {"oracle": run.is_oracle}
    if not domains.is_regression:
        row[INFO_MAX] = info_max(run.outputs)
    return row | accuracy_columns(domains, predicted)


def _can_call(function):
    """Returns whether `function` can be called without arguments."""
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    return True


def _check_types(domains, methods, backbone, seeds, optimizer):
    """Raises a `TypeError` for arguments that would fail within the first run."""
    is_list = isinstance(methods, Iterable) and not isinstance(methods, str)
    checks = (
        (
            "domains",
            domains,
            isinstance(domains, DomainPair),
            "the result of `dann.data.arrays((inputs, labels), target_inputs)` or another reader",
        ),
        ("methods", methods, methods is None or is_list, "a list, such as ['dann', 'cdan']"),
        (
            "backbone",
            backbone,
            not isinstance(backbone, keras.Layer) and _can_call(backbone),
            "a function without arguments that returns a new backbone, such as "
            "`lambda: dann.networks.mlp_backbone((3,))`",
        ),
        ("seeds", seeds, isinstance(seeds, Iterable) and [*seeds], "a list, such as [0, 1, 2]"),
        (
            "optimizer",
            optimizer,
            optimizer is None or _can_call(optimizer),
            "a function without arguments that returns a new optimizer, such as "
            "`lambda: keras.optimizers.Adam(0.001)`",
        ),
    )
    for name, value, is_valid, expected in checks:
        if not is_valid:
            received = f"{name}={reprlib.repr(value)}"
            raise TypeError(f"Expected `{name}` to be {expected}. Received: {received}.")
