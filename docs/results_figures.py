"""Figures in sentences that come from the tables of results; `docs/tables.py` writes them.

A page marks such a figure by what it is, the experiment and the names of the rows there:

    <!-- gain: digits_to_photos | DANN | source only -->23.6<!-- = -->

`mean`, `spread` and `best` are the mean of a row's target accuracy in percent, the same with its
standard deviation, and the mean of the best epochs. `gain` is what the first row has more than the
second, in points, on average over the seeds of both, `gain_spread` the same with its standard
deviation, and `best_gain` of the best epochs.
` (GPU)` after an experiment takes the table of a GPU.

A mark must not begin a line: Markdown would end the paragraph there.
"""

import functools
import statistics

from omegaconf import OmegaConf
from results_tables import ON_GPU, REPRODUCE, TABLE, all_results, mean_and_deviation, runs_of

from dann.experiments.row_names import row_names

BEST = "oracle/best"


def figure(kind, rows):
    """A figure by its mark: its kind, and the experiment and names of rows, with bars between.

    Raises:
        ValueError: If there is no such kind or row, or not as many rows as the kind takes, or
            the rows of a gain have no seed in common, or a run has no best epoch.
    """
    experiment, *names = rows.split(" | ")
    if kind not in KINDS:
        raise ValueError(f"A figure must be one of {[*KINDS]}. Received: {kind}: {rows}")
    if len(names) != (2 if "gain" in kind else 1):
        raise ValueError(f"A gain has two rows, any other figure one. Received: {kind}: {rows}")
    runs = [row(experiment, name) for name in names]
    if "best" in kind and not all(BEST in run.measures for of in runs for run in of.values()):
        raise ValueError(f"{kind} needs the best epoch of each run. Received: {rows}")
    return KINDS[kind](*runs)


def row(experiment, name):
    """The runs of a row, by seed."""
    table = ON_GPU if experiment.endswith(" (GPU)") else TABLE
    experiment = experiment.removesuffix(" (GPU)")
    results = [result for result in all_results(table) if result.experiment == experiment]
    names = row_names(results, OmegaConf.load(REPRODUCE).page.names)
    for method, its_name in names.items():
        if its_name == name:
            return runs_of(experiment, method, table)
    raise ValueError(f"{experiment} has the rows {[*names.values()]}. Received: {name}")


def mean(runs, measure="target/accuracy"):
    """The mean of a row in percent."""
    return f"{100 * statistics.mean(run.measures[measure] for run in runs.values()):.1f}"


def spread(runs):
    """The mean target accuracy of a row in percent, with its standard deviation."""
    return mean_and_deviation([run.target_accuracy for run in runs.values()], ".1f")


def gain(ours, theirs, measure="target/accuracy"):
    """What a row has more than another, in points, on average over the seeds of both."""
    return f"{100 * statistics.mean(gains(ours, theirs, measure)):.1f}"


def gain_spread(ours, theirs):
    """As `gain`, with its standard deviation."""
    return mean_and_deviation(gains(ours, theirs, "target/accuracy"), ".1f")


def gains(ours, theirs, measure):
    """What a row has more than another in a measure, by the seeds of both."""
    both = ours.keys() & theirs.keys()
    if not both:
        raise ValueError(f"Rows of a gain must share a seed. Received: {[*ours]} and {[*theirs]}")
    return [ours[seed].measures[measure] - theirs[seed].measures[measure] for seed in sorted(both)]


KINDS = {
    "mean": mean,
    "spread": spread,
    "best": functools.partial(mean, measure=BEST),
    "gain": gain,
    "gain_spread": gain_spread,
    "best_gain": functools.partial(gain, measure=BEST),
}
