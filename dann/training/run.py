"""A training run, from compiled models to a run directory."""

import functools
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import pandas

from dann.adaptation import AdversarialModel, TargetOnly
from dann.adaptation.replicas import check_optimizer, count_devices, count_replicas
from dann.data import DomainPair
from dann.data.pair import BATCH_SIZE
from dann.diagnostics import Diagnostics
from dann.selection import estimate_shares
from dann.training import run_figures
from dann.training.checkpoints import lock_directory
from dann.training.devices import describe_hardware, get_process_position
from dann.training.evaluation import evaluate, predict_target
from dann.training.preparation import check_trainer
from dann.training.report import WIDTH, find_confounded_nuisances, print_results
from dann.training.resumable_fit import fit
from dann.training.run_callbacks import Clock, EpochLines, EpochTable, OracleCurve, RunScores
from dann.training.run_directory import RunDirectory
from dann.training.trainer import Trainer


def train_run(
    directory: str | os.PathLike,
    domains: DomainPair,
    trainer: Trainer,
    seed: int,
    model: AdversarialModel,
    baseline: AdversarialModel | Mapping[str, Any] | None = None,
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    selection: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    config: Mapping[str, str] | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Trains a model and, optionally, a baseline, and writes the run directory.

    The function writes the checkpoints, the classifier, the summary, the predictions for the target
    and the figures; `callbacks` write metrics and TensorBoard events. It prints one line per epoch
    and a table at the end.

    The summary is the row of this run in every table of runs. Its flat keys are `method` (the
    name), `oracle` (whether the method learns from target labels), `source`, `target`,
    `class_names`, `nuisances` if there are any, `seed`, `steps`, `hardware`, `backend`,
    `training_data` (`DomainPair.identity`), `seconds` (wall time of the training steps),
    `cpu_seconds` (CPU time of all threads), `source/accuracy`, `target/accuracy`,
    `source/balanced_accuracy`, `target/balanced_accuracy`, and the label-free scores as
    `selection/<name>`. With a baseline, the summary also contains the times, accuracies and InfoMax
    of the baseline under `source_only/`. With `selection`, the summary also contains the results of
    `dann.data.probes.probe_domains`: `probe/<name>` for the features of the model, and
    `source_only/probe/<name>` for the features of the baseline; and, without target
    labels, whether other class proportions alone explain the shift, as
    `source_only/proportions_explain_shift`.

    Accuracies are fractions in [0, 1] on the test sets, computed with the final weights. Target
    accuracies are an oracle: nothing is selected by them. They are missing if the test set of the
    target has no labels.

    With nuisances, the source is the only table, and the baseline is the same method at strength 0.
    `leakage` contains, by nuisance, the result of `dann.diagnostics.leakage` on the test set, and
    `accuracy_by_nuisance` the accuracies by nuisance, value and class. A class that occurs with
    only one value of a nuisance causes a warning.

    The summary and the classifier are written before the figures. If a figure cannot be drawn, the
    run prints a warning.

    Args:
        directory: The run directory, which is created if it does not exist.
        domains: The data. An oracle, such as `TargetOnly`, trains on `domains.oracle()`.
        trainer: Length and settings of training.
        seed: Seed of the batches.
        model: Compiled model.
        baseline: Compiled model to compare with. It is trained first, on the same batches.
            Instead of a model, it may be the summary of another run, from which the keys
            `source_only/...` are copied. Defaults to `None`: no baseline.
        callbacks: Keras callbacks for training `model`.
        selection: Object with the attributes `scores`, names of label-free scores that are
            computed after every epoch of `model`; `samples`, the largest number of examples per
            domain that the scores use; and `keep`, the score whose best epoch has the final
            weights, or `None` for the last epoch. The scores use the test set of the source and
            the training inputs of the target. Defaults to `None`: no scores.
        resume: Whether to resume from checkpoints in the directory. `False` (default) deletes them.
        overwrite: Whether to delete the results of a finished run in the directory, and to accept
            files in the directory that no run wrote; these files are kept. Defaults to `False`.
        config: Files that describe the run, YAML text by file name, which are written to
            `.hydra/`. Defaults to no files.
        name: Name of the method in the summary. Defaults to `None`: the name of the model's class.

    Returns:
        The summary.

    Raises:
        BlockingIOError: If another process writes to the directory.
        FileExistsError: If the run may not start there; see `RunDirectory.check_free`.
        FloatingPointError: If a loss, a weight or an output is not finite.
        ValueError: If an epoch is not a multiple of `steps_per_execution`; the source does not fill
            a batch; the devices cannot split a batch evenly; the optimizer does not work on several
            devices of TensorFlow; an oracle or its curve has no labels; or the run cannot resume
            (see `dann.training.fit`).
    """
    check_trainer(trainer)
    run, name = RunDirectory(directory), name or type(model).__name__
    pairs = _make_pairs(model, domains, trainer, seed)
    if trainer.batch_size is None and pairs.batch_size < BATCH_SIZE:
        count = pairs.batch_size
        print(f"Batch size: {count}, because the source has {count} examples (trainer.batch_size)")
    passes = trainer.steps * pairs.batch_size // len(domains.source_train[1])
    if trainer.epochs is None and passes >= 200:
        steps = f"{trainer.steps:,} steps are {passes:,} passes over the source"
        print(f"{steps}; trainer.epochs=50 is shorter")
    if domains.target_test[1] is None and not domains.nuisances:
        print(
            f"The target has no labels: trains on {len(domains.target_train)} examples and keeps "
            f"{len(domains.target_test[0])} for a later test (data.test_share)"
        )
    pairs.check_devices(count_devices(model))
    check_optimizer(model.optimizer, count_replicas(model))
    for callback in callbacks:
        if isinstance(callback, Diagnostics) and callback.data is None:
            callback.data = _make_pairs(model, domains, trainer, seed, (0, 1))[0]
    scores = None
    if selection and (selection.scores or selection.keep):
        scores = RunScores(domains, selection, seed)
    clock = Clock()
    watchers: list[keras.callbacks.Callback] = [scores] if scores else []
    if trainer.oracle_curve:
        if domains.target_test[1] is None or domains.is_regression:
            received = "numbers (regression)" if domains.is_regression else "no labels"
            raise ValueError(
                "Expected class labels of the target for trainer.oracle_curve=true. Received: "
                f"{received}"
            )
        watchers.append(OracleCurve(domains.target_test, clock, run.oracle_file))
    epoch = trainer.steps_per_epoch
    epoch_ends = [*range(epoch, trainer.steps, epoch), trainer.steps]  # the last may be shorter
    progress = functools.partial(EpochLines, trainer.steps)
    for table in (*watchers, *callbacks):
        if isinstance(table, EpochTable) and run.contains(table.filename):
            table.manifest = run.manifest

    def begin_run(logs):
        """Marks the run as unfinished, after all checks have passed."""
        run.manifest.record()  # marks the directory as a run directory
        if names := run.discard_classifier():
            deleted = f"Deleted the results of the previous classifier: {', '.join(names)}"
            print(textwrap.fill(deleted, WIDTH, subsequent_indent="  "))
        run.write_config(config or {})

    def train(title, network, batches, folder, clock, *callbacks):
        print(f"{domains.name}: {title}, {trainer.steps} steps")
        history = fit(
            network,
            batches,
            folder,
            epochs=len(epoch_ends),
            steps_per_epoch=epoch,
            total_steps=trainer.steps,
            callbacks=[keras.callbacks.LambdaCallback(on_train_begin=begin_run), clock, *callbacks],
            resume=resume,
            verbose=0,
        ).history
        row, predicted = evaluate(network, domains, seed)
        return history, clock.times() | row, predicted

    with lock_directory(run.path):
        if not (resume and run.has_checkpoints()):
            # Old checkpoints are deleted before `begin_run` writes the new config.
            run.check_free(overwrite)
            run.discard_results()
        run.check_files()
        row = _describe_run(name, model, domains, trainer, seed)
        for message in find_confounded_nuisances(domains):
            print(f"warning: {message}", file=sys.stderr)
        title, network, logs, classes = "before training", model, {}, {}
        if isinstance(baseline, Mapping):
            row |= {k: v for k, v in baseline.items() if k.startswith("source_only/")}
        elif baseline is not None:
            title, network = "strength 0" if domains.nuisances else "source only", baseline
            print(f"Trains two models: {title}, then {name}")
            batches = _make_pairs(baseline, domains, trainer, seed)
            folder = run.baseline_checkpoints
            logs, measures, classes = train(title, baseline, batches, folder, Clock(), progress())
            if scores:
                results, outputs = scores.measure(baseline)
                measures |= results
                is_labeled = domains.target_test[1] is not None
                if not (is_labeled or domains.is_regression or domains.nuisances):
                    shares = estimate_shares(outputs)
                    measures["proportions_explain_shift"] = shares.rejection_reason is None
            if not domains.nuisances:  # a sweep may recommend the baseline
                files = RunDirectory(run.baseline)
                files.save_classifier(baseline.classifier)
                files.write_predictions(predict_target(baseline.classifier, domains))
            row |= {f"source_only/{key}": value for key, value in measures.items()}
            title = _format_title(title, measures)
        views = [run_figures.compute_panel(title, network, domains)]
        # The watchers come first, so that later callbacks see the scores in the logs.
        lines = [*watchers, progress(), *callbacks]
        history, measures, predicted = train(name, model, pairs, run.checkpoints, clock, *lines)
        row |= measures
        is_oracle = isinstance(model, TargetOnly)
        adapts = bool(model.terms or model.regularizers) and not is_oracle
        outputs = None
        if scores and not is_oracle:
            results, outputs = scores.measure(model)
            # The callback has computed the scores of an adapted model, such as InfoMax.
            row |= {k: v for k, v in results.items() if k.startswith("probe/") or not adapts}
        row |= _get_final_scores(history, selection, epoch_ends)
        run.save_classifier(model.classifier)
        run.save_inputs(domains.encoding, domains.standardizer)
        table = predict_target(model.classifier, domains)
        run.write_predictions(table)
        run.write_summary(row)
        print_results(row, domains, table, outputs)
        views.append(run_figures.compute_panel(_format_title(name, measures), model, domains))
        if "target" in classes:
            predicted["source only"] = classes["target"]
        if domains.target_test[1] is None and "class" in table and not domains.nuisances:
            names = domains.class_names or range(domains.num_classes)
            predicted["target"] = pandas.Index(names).get_indexer(list(table["class"]))
        history = history | {f"source_only/{name}": values for name, values in logs.items()}
        run_figures.draw(run, domains, history, epoch_ends, predicted, views, seed)
        names = [file.name for file in run.model_files if file.is_file()]
        print(f"Written to {run}: {', '.join(names)}, figures/")
    return row


def _make_pairs(model, domains, trainer, seed, position=None):
    """Returns the training pairs, in the same order for every model.

    `position` is the number of the process and the number of processes; each process reads its part
    of every batch.
    """
    domains = domains.oracle() if isinstance(model, TargetOnly) else domains
    process, count = position or get_process_position()
    return domains.batches(trainer.batch_size, seed, process_id=process, num_processes=count)


def _describe_run(name, model, domains, trainer, seed):
    """Returns the columns of a run that are known before it trains."""
    row = {
        "method": name,
        "oracle": isinstance(model, TargetOnly),
        "source": domains.source,
        "target": domains.target,
        "class_names": domains.class_names,
        "seed": seed,
        "steps": trainer.steps,
        "hardware": describe_hardware(),
        "backend": keras.backend.backend(),
        "training_data": domains.identity,
    }
    return row | ({"nuisances": domains.nuisances.kinds} if domains.nuisances else {})


def _get_final_scores(history, selection, epoch_ends):
    """Returns the label-free scores of the final weights."""
    keep = selection and selection.keep
    epoch = int(np.argmax(history[f"selection/{keep}"])) if keep else -1
    names = [name for name in history if name.startswith("selection/")]
    row: dict[str, Any] = {name: float(history[name][epoch]) for name in names}
    return row | ({"kept_by": keep, "kept_step": epoch_ends[epoch]} if keep else {})


def _format_title(name, measures):
    """Returns the title of a figure of the features: a name, and the accuracies if known."""
    words = [
        f"{domain} {measures[f'{domain}/accuracy']:.1%}"
        for domain in ("source", "target")
        if f"{domain}/accuracy" in measures
    ]
    return f"{name}: {', '.join(words)}" if words else name
