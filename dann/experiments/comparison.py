"""A table of runs over settings and seeds, with a ranking and a recommendation."""

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dann.selection import Recommendation, average_classifiers

AGREEMENT = "selection/agreement"
INFO_MAX = "selection/info_max"  # ranks runs that agree equally
ACCURACIES = ["source/accuracy", "target/accuracy"]
_BASELINE_ACCURACIES = [f"source_only/{name}" for name in ACCURACIES]
_TITLES = {
    "source/accuracy": "source",
    "target/accuracy": "target (oracle)",
    "target/balanced_accuracy": "balanced (oracle)",
}


class Comparison:
    """Runs of several settings and seeds, ranked without target labels.

    A label-free score ranks the runs. Runs that agree equally, as two runs always do, are ranked by
    InfoMax. If a run has no other seed to agree with, InfoMax ranks all runs, and `note` explains
    this. If runs have equal scores, the earlier run comes first. Runs that learned from target
    labels, failed or diverged have no rank. Target accuracies need target labels, so they are
    displayed but rank nothing.

    Args:
        runs: Frame with one row per run and the columns `run` (name), `setting`, `seed`, `oracle`
            (whether the run learned from target labels) and one column per measure, such as
            `selection/info_max`, `source/accuracy` and `target/accuracy`. Missing measures are
            NaN. Columns `source_only/...` are measures of the baseline, named by `baseline`.
        recommendation: The recommended model, which replaces the choice of the ranking. Defaults
            to `None`: the first run of the ranking.
        classifiers: Networks from inputs to logits, by setting and seed. Defaults to none.
        score: The score that ranks the runs, `"agreement"` (default) or the name of a column
            `selection/<name>`.

    Attributes:
        runs: The frame with the additional column `rank`, the best run first. The rank is `""` for
            runs without a rank.
        key: The column that ranks the runs.
        note: Explains the choice of the score, or `""`.
    """

    def __init__(
        self,
        runs: pandas.DataFrame,
        recommendation: Recommendation | None = None,
        classifiers: Mapping[str, Mapping[int, Any]] | None = None,
        score: str = "agreement",
    ):
        self.recommendation, self.classifiers = recommendation, classifiers or {}
        candidates = runs.query("oracle == False")  # failed runs have NaN
        self.key, self.note = _choose_score(f"selection/{score}", candidates)
        ranked = _rows_with(candidates, self.key)
        keys = [self.key, INFO_MAX] if self.key == AGREEMENT and INFO_MAX in runs else [self.key]
        if len(ranked):
            # A stable sort keeps the earlier of two runs with equal scores first.
            ranked = ranked.sort_values(keys, ascending=False, kind="stable")
        unranked = runs.drop(ranked.index)
        ranks = [*range(1, len(ranked) + 1), *[""] * len(unranked)]
        self.runs: Any = pandas.concat([ranked, unranked]).assign(rank=ranks)

    @property
    def ranked(self) -> Any:
        """The runs that have a rank, the best first."""
        return self.runs[self.runs["rank"].ne("")]

    @property
    def choice(self) -> str:
        """The recommended setting, or the setting of the run with the best score.

        Raises:
            IndexError: If no run has the score.
        """
        if self.recommendation is not None:
            return self.recommendation.choice
        return str(self.ranked["setting"].iloc[0])

    @property
    def classifier(self) -> Any:
        """A network that averages the class probabilities of all runs of the chosen setting."""
        settings = [self.choice] if self.choice in self.classifiers else list(self.classifiers)
        runs = [network for name in settings for network in self.classifiers[name].values()]
        return average_classifiers(runs)

    @property
    def table(self) -> Any:
        """Means and standard deviations over seeds, one row per setting and per baseline.

        The columns are pairs of a measure and `"count"`, `"mean"` or `"std"`.
        """
        measures = [name for name in (self.key, *_TITLES) if name in self.runs]
        rows = self.runs[["setting", "seed", *measures]]
        if {*_BASELINE_ACCURACIES} <= {*self.runs}:
            names = [name for name in _TITLES if f"source_only/{name}" in self.runs]
            columns = [f"source_only/{name}" for name in names]
            # Settings that differ only in the method share one baseline per seed.
            baseline = self.runs[["baseline", "seed", *columns]].dropna().drop_duplicates()
            baseline.columns = ["setting", "seed", *names]
            rows = pandas.concat([rows, baseline])
        return rows.groupby("setting", sort=False)[measures].agg(["count", "mean", "std"])

    def __str__(self):
        table = self.table
        columns: dict[str, Any] = {"seeds": table["source/accuracy"]["count"]}
        for name in map(str, table.columns.unique(level=0)):
            title = _TITLES.get(name, name.removeprefix("selection/"))
            digits = ".1%" if name in _TITLES else ".4f"
            # Two runs agree equally with each other, so their spread of 0 has no meaning.
            min_count = 3 if name == AGREEMENT else 2
            columns[title] = [
                _format_mean_and_std(*row, digits=digits, min_count=min_count)
                for row in table[name].to_numpy()
            ]
        text = pandas.DataFrame(columns).rename_axis(None).to_string()
        return "\n".join(["mean ± standard deviation over seeds", text, *self._explain()])

    def _explain(self):
        """Returns lines about the choice, its target accuracy, and the runs without a rank."""
        ranked, lines = self.ranked, [self.note] if self.note else []
        if len(ranked):
            # NaN if one accuracy is unknown: the best of the known ones would mislead.
            first, best = ranked.iloc[0], ranked["target/accuracy"].max(skipna=False)
            run = f"{first['setting']}, in {first['run']}"
            if self.recommendation is None:
                lines.append(f"chosen by {self.key}, without target labels: {run}")
            else:
                lines.append(f"highest {self.key} (not the recommendation): {run}")
            if not math.isnan(best):
                accuracy = first["target/accuracy"]
                lines.append(f"target accuracy of this run: {accuracy:.1%}; best run: {best:.1%}")
        if self.recommendation is not None:
            lines += [f"- {reason}" for reason in self.recommendation.reasons]
            lines.append(f"recommended: {self.choice}")
        reasons = {True: "uses target labels", False: f"no {self.key}"}
        for run in self.runs[self.runs["rank"].eq("")].to_dict("records"):
            reason = reasons.get(run["oracle"], "not finished")
            lines.append(f"not ranked: {run['setting']}, in {run['run']} ({reason})")
        return lines

    def plot(self, path: str | pathlib.Path) -> None:
        """Draws the score and, if it is known, the target accuracy of each run.

        There is one line per setting.

        Args:
            path: File to write; the extension selects the format.
        """
        ranked = self.ranked
        settings = np.array(ranked["setting"])
        names = list(dict.fromkeys(settings))
        lines = [names.index(name) for name in settings]
        size = 7 + 0.08 * max(map(len, names)), 2 + 0.35 * len(names)
        figure = Figure(figsize=size, layout="constrained")
        color, labels = "#1b4f8f", {self.key: f"{self.key}\n(higher is better)"}
        if ranked["target/accuracy"].notna().any():
            labels["target/accuracy"] = "target accuracy\n(needs labels)"
        panels = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
        for axes, (measure, label) in zip(panels, labels.items(), strict=True):
            values = ranked[measure].astype(float)
            axes.scatter(values, lines, facecolors="none", edgecolors=color, label="one run")
            means = values.groupby(settings).mean().reindex(names)
            axes.scatter(means, range(len(names)), marker="|", s=200, color=color, label="mean")
            first = values.iloc[:1]
            axes.scatter(first, lines[:1], marker="x", color="black", label="ranked first")
            axes.grid(axis="y", color="0.9")
            axes.margins(x=0.1, y=0.6 / len(names))
            axes.set(xlabel=label)
            axes.xaxis.set_major_locator(MaxNLocator(3))  # more labels of digits would overlap
        if len(labels) > 1 and _BASELINE_ACCURACIES[1] in ranked:
            values = ranked[_BASELINE_ACCURACIES[1]].astype(float)
            panels[1].scatter(values, lines, marker=".", color="0.6", label="source only")
        panels[0].set(yticks=range(len(names)), yticklabels=names)
        panels[0].invert_yaxis()
        figure.legend(*panels[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.savefig(path, dpi=120)


def _rows_with(runs, measure):
    """Returns the rows of the runs that have a measure."""
    return runs.dropna(subset=[measure]) if measure in runs else runs.head(0)


def _choose_score(key, candidates):
    """Returns the column that ranks the runs, and a note if it differs from `key`."""
    runs_without_agreement = set(candidates["run"]) - set(_rows_with(candidates, AGREEMENT)["run"])
    if key != AGREEMENT or not runs_without_agreement or _rows_with(candidates, INFO_MAX).empty:
        return key, ""
    note = f"ranked by {INFO_MAX}: agreement needs several seeds of each setting"
    if len(runs_without_agreement) < len(candidates):
        note += f"; runs with one seed: {', '.join(sorted(runs_without_agreement))}"
    return INFO_MAX, note


def _format_mean_and_std(count, mean, std, digits, min_count):
    """Formats a mean and, for at least `min_count` values, their standard deviation."""
    deviation = f" ± {std:{digits}}" if count >= min_count else ""
    return f"{mean:{digits}}{deviation}" if count else "-"
