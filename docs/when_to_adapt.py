"""Compares methods on natural shifts; writes the table and the chart of docs/when-to-adapt.md.

python docs/when_to_adapt.py <folder with vaderSentiment-3.3.2.tar.gz>

A task that is in docs/when-to-adapt.csv is not trained again. The watch's data needs the extra
`seglearn`.
"""

import functools
import itertools
import pathlib
import re
import sys

import numpy as np
import pandas
from matplotlib.figure import Figure

import dann
from dann.schedules import GaninSchedule

DOCS = pathlib.Path(__file__).parent
CSV = DOCS / "when-to-adapt.csv"
REGION = re.compile(r"(?<=<!-- tasks -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
TEXTS = "tweets", "amazon", "films", "nyt"
PEOPLE = (1, 2, 3, 4, 5), (6, 7, 8, 9, 10)
STEPS = 500
MEASURE = "target/balanced_accuracy"
KEPT = ["source/balanced_accuracy", "target/accuracy", MEASURE]
KEPT += ["selection/info_max", "selection/agreement"]


def rising(high=1.0):
    """The strength of the reversal."""
    return GaninSchedule(STEPS, high=high)


METHODS = {
    "DANN": lambda *given: dann.DANN(*given, strength=rising()),
    "DANN, strength .3": lambda *given: dann.DANN(*given, strength=rising(0.3)),
    "CDAN": lambda *given: dann.CDAN(*given, strength=rising()),
    "DANN + MCC": lambda *given: dann.DANN(*given, strength=rising(), regularizers=dann.MCC()),
}
SHOWN = {"source_only": "source only", **{name: name for name in METHODS}}
SHOWN |= {"average": "average", "target_only": "target labels"}


def tasks(folder):
    """What reads the domains and makes a backbone for a shape of inputs, by task."""
    mlp = functools.partial(dann.networks.mlp_backbone, hidden_units=(128, 128))
    series = functools.partial(dann.networks.time_series_backbone, filters=(32, 64, 32))
    found = {}
    for pair in itertools.permutations(TEXTS, 2):
        load = functools.partial(dann.data.sentiment, *pair, data_dir=folder)
        found[" → ".join(pair)] = load, mlp
    for source, target in (PEOPLE, PEOPLE[::-1]):
        name = f"people {source[0]}-{source[-1]} → {target[0]}-{target[-1]}"
        found[name] = functools.partial(dann.data.watch, source, target), series
    return found


def read():
    """The runs so far."""
    return pandas.read_csv(CSV) if CSV.exists() else pandas.DataFrame({"task": []})


def train(folder):
    """Adds the runs of the tasks that the table lacks."""
    known = read()
    for task, (load, network) in tasks(folder).items():
        if task not in set(known["task"]):
            domains = load()
            backbone = functools.partial(network, domains.input_shape)
            found = dann.compare(domains, METHODS, backbone=backbone, steps=STEPS)
            rows = found.runs.assign(task=task, recommended=found.runs["setting"].eq(found.chosen))
            rows = rows[["task", "setting", "seed", "recommended", *KEPT]].round(4)
            known = pandas.concat([known, rows.sort_values(["setting", "seed"])])
            known.to_csv(CSV, index=False)
    return known


def table(runs):
    """The mean balanced accuracies on the target in Markdown, a row a task."""
    means = 100 * runs.groupby(["task", "setting"], sort=False)[MEASURE].mean().unstack()
    rows = [["task", *SHOWN.values()], ["---"] * (1 + len(SHOWN))]
    for task, shares in means[list(SHOWN)].iterrows():
        rows.append([str(task), *(f"{share:.1f}" for share in shares)])
    return "\n".join(f"|{'|'.join(row)}|" for row in rows)


def gains(runs):
    """Mean points over the source alone, a row a task and a column a setting."""
    means = 100 * runs.groupby(["task", "setting"], sort=False)[MEASURE].mean().unstack()
    return means.sub(means["source_only"], axis=0)


def draw(runs):
    """The chart: gain over the source alone, a dot a task, a row a method."""
    shown = [name for name in SHOWN if name not in ("source_only", "target_only")]
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(shown):
        found = gains(runs)[name].dropna()
        axes.scatter(found, np.full(len(found), place), facecolors="none", edgecolors="#4051b5")
        axes.scatter(found.mean(), place, marker="|", s=300, color="#e0701b")
    axes.axvline(0, color="0.6", linewidth=1)
    axes.set_yticks(range(len(shown)), [SHOWN[name] for name in shown])
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.set_xlabel("points of balanced accuracy over source only; a dot a task, a bar the mean")
    figure.savefig(DOCS / "images/when-to-adapt.png", dpi=100)


def written(text, runs):
    """The page with its table written anew."""
    return REGION.sub(lambda _: f"\n{table(runs)}\n", text)


def main(folder):
    """Trains what lacks and writes both."""
    runs, page = train(folder), DOCS / "when-to-adapt.md"
    page.write_text(written(page.read_text(), runs))
    draw(runs)


if __name__ == "__main__":
    main(sys.argv[1])
