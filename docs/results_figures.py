"""Figures in sentences that come from the tables of results; `docs/tables.py` writes them.

A page marks such a figure by what it is, the experiment and the names of the rows:

    <!-- gain: teacher_usps_to_mnist | DANN | source only -->5.4<!-- = -->

`mean`, `spread` and `best` are the mean of a row's target accuracy in percent, the same with its
standard deviation, and the mean of the best epochs. `gain` is what the first row has more than the
second, in points, on average over the seeds of both, `best_gain` the same of the best epochs.
` (GPU)` after an experiment takes the table of a GPU.
"""

import functools
import statistics

from omegaconf import OmegaConf
from results_tables import ON_GPU, REPRODUCE, TABLE, all_results, percent, runs_of

from dann.experiments.row_names import row_names

BEST = "oracle/best"


@functools.cache
def methods(table):
    """The methods of a table by the names of their rows."""
    names = row_names(all_results(table), OmegaConf.load(REPRODUCE).page.names)
    return {name: method for method, name in names.items()}


def figure(kind, told):
    """A figure by its mark."""
    experiment, *names = told.split(" | ")
    table = ON_GPU if experiment.endswith(" (GPU)") else TABLE
    experiment = experiment.removesuffix(" (GPU)")
    rows = [runs_of(experiment, methods(table)[name], table) for name in names]
    return KINDS[kind](*rows)


def spread(runs, measure="target/accuracy"):
    """The mean of a row in percent, with its standard deviation over the seeds."""
    return percent(*(run.measures[measure] for run in runs.values())).removesuffix("%")


def mean(runs, measure="target/accuracy"):
    """The mean of a row in percent."""
    return spread(runs, measure).split()[0]


def gain(ours, theirs, measure="target/accuracy"):
    """What a row has more than another, in points."""
    both = ours.keys() & theirs.keys()
    differences = [ours[seed].measures[measure] - theirs[seed].measures[measure] for seed in both]
    return f"{100 * statistics.mean(differences):.1f}"


KINDS = {
    "mean": mean,
    "spread": spread,
    "best": functools.partial(mean, measure=BEST),
    "gain": gain,
    "best_gain": functools.partial(gain, measure=BEST),
}
