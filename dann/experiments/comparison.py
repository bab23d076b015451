"""One table of runs over settings and seeds, in words and in a picture, with what is chosen."""

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure

from dann.selection import Recommendation, average_classifiers

AGREEMENT = "selection/agreement"
OF_EQUALS = "selection/info_max"
ACCURACIES = ["source/accuracy", "target/accuracy"]
OF_BASELINE = ["source_only/source/accuracy", "source_only/target/accuracy"]
_SHOWN = {
    "source/accuracy": "source",
    "target/accuracy": "target (oracle)",
    "target/balanced_accuracy": "balanced (oracle)",
}


class Comparison:
    """Runs of several settings and seeds, ranked without target labels.

    Runs are ranked by a label-free score. Runs that agree equally, as two do, are ranked by
    InfoMax. If a run has no other to agree with, all are ranked by InfoMax, and `remark` says so.
    Of runs with the same score the earlier comes first. Runs that learned from the target's labels,
    failed or diverged have no rank. Target accuracies need target labels, so nothing is ranked by
    them; they are shown.

    Args:
        runs: Frame with a row for each run: `run` (its name), `setting`, `seed`, `oracle` (whether
            it learned from the target's labels), and a column for each measure, such as
            `selection/info_max`, `source/accuracy` and `target/accuracy`, NaN where it has none.
            Columns `source_only/...` are of its baseline, which `baseline` names.
        recommendation: What to keep, if that is known better than by the ranking.
        classifiers: The networks from inputs to logits, by setting and seed.
        score: The score to rank by, `"agreement"` or one of the columns `selection/...`.

    Attributes:
        runs: The frame, the best run first, with a column `rank`, `""` without one.
        key: The column that the runs are ranked by.
        remark: What to know about the choice of the score, or `""`.
    """

    def __init__(
        self,
        runs: pandas.DataFrame,
        recommendation: Recommendation | None = None,
        classifiers: Mapping[str, Mapping[int, Any]] | None = None,
        score: str = "agreement",
    ):
        self.recommendation, self.classifiers = recommendation, classifiers or {}
        candidates = runs.query("oracle == False")
        self.key, self.remark = _usable_score(f"selection/{score}", candidates)
        ranked = having(candidates, self.key)
        keys = [self.key, OF_EQUALS] if self.key == AGREEMENT and OF_EQUALS in runs else [self.key]
        if len(ranked):
            ranked = ranked.sort_values(keys, ascending=False, kind="stable")
        others = runs.drop(ranked.index)
        ranks = [*range(1, len(ranked) + 1), *[""] * len(others)]
        self.runs: Any = pandas.concat([ranked, others]).assign(rank=ranks)

    @property
    def ranked(self) -> Any:
        """The runs that have a rank, the best first."""
        return self.runs[self.runs["rank"].ne("")]

    @property
    def chosen(self) -> str:
        """The setting that is recommended, or else that of the run that the score puts first.

        Raises:
            IndexError: If no run has the score.
        """
        if self.recommendation is not None:
            return self.recommendation.choice
        return str(self.ranked["setting"].iloc[0])

    @property
    def classifier(self) -> Any:
        """The chosen network: the mean class probabilities of all runs of the chosen setting."""
        settings = [self.chosen] if self.chosen in self.classifiers else self.classifiers
        return average_classifiers(
            [one for name in settings for one in self.classifiers[name].values()]
        )

    @property
    def table(self) -> Any:
        """Means and standard deviations over seeds, a row for each setting and for the baseline.

        Its columns are pairs of a measure and `"count"`, `"mean"` or `"std"`.
        """
        measures = [name for name in (self.key, *_SHOWN) if name in self.runs]
        shown = self.runs[["setting", "seed", *measures]]
        if {*OF_BASELINE} <= {*self.runs}:
            names = [name for name in _SHOWN if f"source_only/{name}" in self.runs]
            own = [f"source_only/{name}" for name in names]
            baseline = self.runs[["baseline", "seed", *own]].dropna().drop_duplicates()
            baseline.columns = ["setting", "seed", *names]
            shown = pandas.concat([shown, baseline])
        groups = shown.groupby("setting", sort=False)[measures]
        return groups.agg(["count", "mean", "std"])

    def __str__(self):
        table, columns = self.table, {}
        columns["seeds"] = table["source/accuracy"]["count"]
        for name in dict.fromkeys(table.columns.get_level_values(0)):
            told = _SHOWN.get(name, name.removeprefix("selection/"))
            form = ".1%" if name in _SHOWN else ".4f"
            least = 3 if name == AGREEMENT else 2  # two runs agree equally with each other
            columns[told] = [
                _spread(*row, form=form, least=least) for row in table[name].to_numpy()
            ]
        shown = pandas.DataFrame(columns).rename_axis(None).to_string()
        return "\n".join(["mean ± standard deviation over seeds", shown, *self._choice()])

    def _choice(self):
        """Lines on what is chosen, at what cost, and on runs without a rank."""
        ranked, lines = self.ranked, [self.remark] if self.remark else []
        if len(ranked):
            first, best = ranked.iloc[0], ranked["target/accuracy"].max(skipna=False)
            told = f"{first['setting']}, in {first['run']}"
            verb = "chosen" if self.recommendation is None else "first"
            lines.append(f"{verb} by {self.key}, without target labels: {told}")
            if not math.isnan(best):
                accuracy = first["target/accuracy"]
                lines.append(
                    f"its target accuracy is {accuracy:.1%}, that of the best run {best:.1%}"
                )
        if self.recommendation is not None:
            lines += [f"- {reason}" for reason in self.recommendation.reasons]
            lines.append(f"recommended: {self.chosen}")
        for run in self.runs[self.runs["rank"].eq("")].to_dict("records"):
            reason = {True: "an oracle", False: f"no {self.key}"}.get(run["oracle"], "not finished")
            lines.append(f"not ranked: {run['setting']}, in {run['run']} ({reason})")
        return lines

    def plot(self, path: str | pathlib.Path) -> None:
        """Writes a picture: the score of each setting's runs, beside it their target accuracies.

        Args:
            path: File to write; its ending chooses the format.
        """
        ranked = self.ranked
        settings = np.array(ranked["setting"])
        names = list(dict.fromkeys(settings))
        places = [names.index(name) for name in settings]
        size = 7 + 0.08 * max(map(len, names)), 2 + 0.35 * len(names)
        figure = Figure(figsize=size, layout="constrained")
        score, accuracy = figure.subplots(1, 2, sharey=True)
        panels = (score, self.key, "#1b4f8f"), (accuracy, "target/accuracy", "#e0701b")
        for axes, values, color in panels:
            found = ranked[values].astype(float)
            axes.scatter(found, places, facecolors="none", edgecolors=color, label="a run")
            means = found.groupby(settings).mean().reindex(names)
            axes.scatter(means, range(len(names)), marker="|", s=200, color=color, label="mean")
            axes.scatter(
                found.iloc[:1], places[:1], marker="x", color="black", label="ranked first"
            )
            axes.grid(axis="y", color="0.9")
            axes.margins(x=0.1, y=0.6 / len(names))
        if OF_BASELINE[1] in ranked:
            found = ranked[OF_BASELINE[1]].astype(float)
            accuracy.scatter(found, places, marker=".", color="0.6", label="its source only")
        told = f"{self.key}\n(higher is better)"
        score.set(xlabel=told, yticks=range(len(names)), yticklabels=names)
        score.invert_yaxis()
        accuracy.set(xlabel="target accuracy\n(needs labels)")
        figure.legend(*accuracy.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.savefig(path, dpi=120)


def having(runs: Any, measure: str) -> Any:
    """Returns the rows of the runs that have a measure."""
    return runs.dropna(subset=[measure]) if measure in runs else runs.head(0)


def _usable_score(key, candidates):
    """The score to rank by, InfoMax if runs without a second seed have no agreement; a remark."""
    alone = set(candidates["run"]) - set(having(candidates, AGREEMENT)["run"])
    if key != AGREEMENT or not alone or having(candidates, OF_EQUALS).empty:
        return key, ""
    those = "" if len(alone) == len(candidates) else f"; one seed: {', '.join(sorted(alone))}"
    remark = f"ranked by {OF_EQUALS}: agreement needs several seeds of each setting{those}"
    return OF_EQUALS, remark


def _spread(count, mean, std, form, least):
    """The mean and, of at least so many values, their standard deviation."""
    spread = f" ± {std:{form}}" if count >= least else ""
    return f"{mean:{form}}{spread}" if count else "-"
