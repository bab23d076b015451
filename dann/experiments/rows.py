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


def compute_agreement(
    runs: Iterable[tuple[Hashable, Hashable, Hashable, Any]],
) -> dict[Hashable, float]:
    """Returns the agreement of each run with runs of other seeds on the classes of the target.

    Args:
        runs: For each run a key; the group in which runs are compared, such as the setting; the
            seed; and the predictions, as in `dann.selection.agreement`. If several
            runs share a group and a seed, only the first is used.

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


def read_agreement(
    runs: Mapping[pathlib.Path, tuple[Hashable, Hashable]],
) -> dict[Hashable, float]:
    """Returns the agreement of run directories, by path; see `compute_agreement`.

    Runs are compared if they have the same settings and the same target examples. A run that
    learned from target labels, or whose files cannot be read, is left out.

    Args:
        runs: The settings without the seed, and the seed, by path of the run directory.
    """
    rows = []
    for path, (settings, seed) in runs.items():
        run = RunDirectory(path)
        with contextlib.suppress(FileNotFoundError, ValueError):
            examples, classes = run.target_classes()
            if not run.summary()["oracle"]:
                rows.append((path, (settings, examples), seed, classes))
    return compute_agreement(rows)


def read_rows(directory: pathlib.Path, overrides: Mapping[str, Sequence[str]]) -> pandas.DataFrame:
    """Returns a frame with one row per run of a sweep and one column per measure.

    The columns are `run`, `overrides` (the arguments), `setting` (the arguments that differ
    between runs, without the seed), `seed`, `baseline` (the name of the source-only baseline of the
    setting), `oracle`, `leakage`, and the scores, accuracies and probes of the summary. A run that
    is not finished has no measures.

    Args:
        directory: Folder of the sweep.
        overrides: Command-line arguments of each run that was started, by its folder in
            `directory`.
    """
    settings = {run: _split_seed(arguments) for run, arguments in overrides.items()}
    agreements = read_agreement({directory / run: setting for run, setting in settings.items()})
    shared = set.intersection(*(set(setting) for setting, _ in settings.values()))
    rows = []
    for run, (setting, seed) in settings.items():
        run_directory = RunDirectory(directory / run)
        summary = run_directory.summary() if run_directory.is_finished() else {}
        # Arguments that all runs share are not part of the name of a setting.
        setting = [argument for argument in setting if argument not in shared]
        data_arguments = [
            argument for argument in setting if not argument.startswith(_METHOD_GROUPS)
        ]
        row = {
            "run": run,
            "overrides": " ".join(overrides[run]),
            **{name: summary[name] for name in summary if name.startswith("selection/")},
            **{name: summary.get(name, math.nan) for name in ("oracle", *ACCURACIES)},
            **{name: summary[name] for name in summary if name.endswith("accuracy")},
            **{name: summary[name] for name in summary if "probe/" in name},
            "leakage": summary.get("leakage", {}),
            "seed": seed,
            "setting": " ".join(setting) or "all seeds",
            "baseline": " ".join(["source only", *data_arguments]),
        }
        if directory / run in agreements:
            row[AGREEMENT] = agreements[directory / run]
        rows.append(row)
    return pandas.DataFrame(rows)


def _split_seed(arguments):
    """Returns the arguments of a run without the seed, and the seed."""
    # Hydra also accepts `+seed=` and `++seed=`, and the last value counts.
    seeds = [argument for argument in arguments if re.match(r"\+{0,2}seed=", argument)]
    setting = tuple(argument for argument in arguments if argument not in seeds)
    return setting, seeds[-1].partition("=")[2] if seeds else None
