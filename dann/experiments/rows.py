"""Runs as rows of a table: their agreement, and the rows of run directories."""

import contextlib
import math
import pathlib
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas

from dann.experiments.comparison import ACCURACIES, AGREEMENT
from dann.selection import agreement
from dann.training.run_directory import RunDirectory

# Arguments of a method, which the source-only baseline does not see.
_METHOD_GROUPS = ("method", "schedule", "regularizer", "selection", "callbacks")
_BASELINE = "source_only/"  # prefix of the measures of the baseline in a summary
_MEASURES = "selection/", "probe/", "source/", "target/", "oracle", "leakage", "seconds"


def compute_agreement(
    runs: Iterable[tuple[Hashable, Hashable, Hashable, Any]],
) -> dict[Hashable, float]:
    """Returns the agreement of each run with runs of other seeds on the classes of the target.

    Args:
        runs: For each run, a key; the group in which runs are compared, such as the setting; the
            seed; and the predictions, see `dann.selection.agreement`. If several runs share a group
            and a seed, only the first is used.

    Returns:
        The agreement by key, only for groups with at least two seeds.
    """
    groups: dict[Hashable, dict[Hashable, tuple[Hashable, Any]]] = {}
    for key, group, seed, predictions in runs:
        groups.setdefault(group, {}).setdefault(seed, (key, predictions))
    agreements = {}
    for group in groups.values():
        if len(group) > 1:
            keys, predictions = zip(*group.values(), strict=True)
            # Equal agreements must be equal numbers, so that InfoMax breaks the tie.
            agreements |= zip(keys, np.round(agreement(predictions), 9).tolist(), strict=True)
    return agreements


def read_predictions(paths: Iterable[pathlib.Path]) -> dict[pathlib.Path, pandas.DataFrame]:
    """Returns the predictions for the target's training examples, by path of the run directory.

    A run that learned from target labels, or whose files cannot be read, is left out.
    """
    tables = {}
    for path in paths:
        run = RunDirectory(path)
        with contextlib.suppress(FileNotFoundError, ValueError):
            table = run.predictions()
            # The directory of a baseline contains no summary.
            if not (run.is_finished() and run.summary()["oracle"]):
                tables[path] = table[table["split"] == "train"]
    return tables


def read_agreement(
    runs: Mapping[pathlib.Path, tuple[Hashable, Hashable]],
    predictions: Mapping[pathlib.Path, pandas.DataFrame],
) -> dict[Hashable, float]:
    """Returns the agreement of run directories, by path; see `compute_agreement`.

    Runs are compared if they have the same settings and the same target examples.

    Args:
        runs: The settings without the seed, and the seed, by path of the run directory.
        predictions: The result of `read_predictions`.
    """
    return compute_agreement(
        (path, (runs[path][0], tuple(table["example"])), runs[path][1], table["class"].to_numpy())
        for path, table in predictions.items()
        if path in runs and "class" in table  # agreement compares classes
    )


def read_rows(
    directory: pathlib.Path,
    overrides: Mapping[str, Sequence[str]],
    predictions: Mapping[pathlib.Path, pandas.DataFrame],
) -> pandas.DataFrame:
    """Returns a frame with one row per run of a sweep and one column per measure.

    The columns are `run`, `overrides` (the arguments), `setting` (the arguments that differ
    between runs, without the seed), `seed`, `baseline` (the setting of the source-only baseline),
    `oracle`, `leakage`, and the scores, accuracies, probes and times of the summary. The baseline
    that a run trained has a row, too. A run that is not finished has no measures. If only seeds
    differ, the setting is the name of the method.

    Args:
        directory: Folder of the sweep.
        overrides: Command-line arguments of each run that was started, by its folder in
            `directory`.
        predictions: The result of `read_predictions` for these runs.
    """
    settings = {run: _split_seed(arguments) for run, arguments in overrides.items()}
    paths = {directory / run: setting for run, setting in settings.items()}
    agreements = read_agreement(paths, predictions)
    shared = set.intersection(*(set(setting) for setting, _ in settings.values()))
    directories = {run: RunDirectory(directory / run) for run in settings}
    summaries = {run: path.summary() for run, path in directories.items() if path.is_finished()}
    # Without arguments that differ, the name of a setting is its method.
    plain = [run for run in summaries if shared.issuperset(settings[run][0])]
    plain_name = summaries[plain[0]]["method"] if plain else "defaults"
    rows, baselines = [], {}
    for run, (arguments, seed) in settings.items():
        summary = summaries.get(run, {})
        # Arguments that all runs share are not part of the name of a setting.
        setting = [argument for argument in arguments if argument not in shared]
        data_arguments = [word for word in setting if not word.startswith(_METHOD_GROUPS)]
        baseline = " ".join(["source only", *data_arguments])
        row = {
            "run": run,
            "overrides": " ".join(overrides[run]),
            "setting": " ".join(setting) or plain_name,
            "baseline": baseline,
            "seed": seed,
            **dict.fromkeys(["oracle", *ACCURACIES], math.nan),
            "leakage": {},
        }
        method = summary.get("method", "")
        if method == "source_only":  # without regularizers
            row["setting"] = baseline
        elif "method=source_only" in setting and method:  # with regularizers, maybe of all runs
            words = [w for w in setting if not w.startswith(("method=", "regularizer="))]
            row["setting"] = " ".join([method, *words])
        baseline_measures = _select_measures(summary, _BASELINE)
        if baseline_measures:
            name = f"{run}/{directories[run].baseline.name}"
            identity = {"run": name, "setting": baseline, "oracle": False}
            # All runs with this baseline report the same numbers.
            baselines.setdefault((baseline, seed), row | identity | baseline_measures)
        row |= _select_measures(summary)
        if directory / run in agreements:
            row[AGREEMENT] = agreements[directory / run]
        rows.append(row)
    trained = {(row["setting"], row["seed"]) for row in rows}
    rows += [row for key, row in baselines.items() if key not in trained]
    return pandas.DataFrame(rows)


def _select_measures(summary, prefix=""):
    """Returns the measures of a summary that start with `prefix`, without the prefix."""
    row = {key.removeprefix(prefix): summary[key] for key in summary if key.startswith(prefix)}
    return {name: value for name, value in row.items() if name.startswith(_MEASURES)}


def _split_seed(arguments):
    """Returns the arguments of a run without the seed, and the seed."""
    # Hydra also accepts `+seed=` and `++seed=`, and the last value counts.
    seeds = [argument for argument in arguments if re.match(r"\+{0,2}seed=", argument)]
    setting = tuple(argument for argument in arguments if argument not in seeds)
    return setting, seeds[-1].partition("=")[2] if seeds else ""
