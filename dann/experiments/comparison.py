"""A table of runs over settings and seeds, with one ranking and one recommendation."""

import math
import os
import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any

import pandas
from matplotlib.figure import Figure
from scipy import stats

from dann.data import Standardizer
from dann.data.probes import name_alignment
from dann.selection.recommend import DISTILLED_AVERAGE, Recommendation
from dann.training.report import NOT_ALIGNED, TITLES, WIDTH, describe_doubt, format_recommendation
from dann.training.run_directory import RunDirectory

AGREEMENT = "selection/agreement"
INFO_MAX = "selection/info_max"  # ranks runs that agree equally
GAIN = "gain"
BOOSTING = "gradient_boosting"  # without random weights, so its seeds agree trivially
ACCURACIES = ["source/accuracy", "target/accuracy"]
_TITLES = {**TITLES, GAIN: "gain*"}
_MAX_SOURCE_LOSS = 0.05  # a larger loss of source accuracy is printed


class Comparison:
    """Runs of several settings and seeds, ranked without target labels, and the run to keep.

    A label-free score ranks the runs. Runs that agree equally, as two runs always do, are ranked by
    InfoMax. If a run has no other seed to agree with, InfoMax ranks all runs, and a line of the
    text explains this. Runs that learned from target labels, failed or diverged come last; so does
    gradient boosting, which is hardly random. Target accuracies are displayed but rank nothing.

    Args:
        runs: Frame with one row per run and the columns `run` (name), `setting`, `baseline` (the
            setting that trained on the source alone), `seed`, `oracle` (whether the run learned
            from target labels) and one column per measure, such as `selection/info_max`,
            `source/accuracy`, `target/accuracy` and `seconds`; in regression, `source/mae` and
            `target/mae` replace the accuracies. Missing measures are NaN. The
            optional column `fold` is the number of the pair of domains.
        score: The score that ranks the runs, `"agreement"` (default) or the name of a column
            `selection/<name>`.
        recommendation: The run to keep, from `dann.selection.recommend`. Defaults to `None`.
        classifier: Keras model of this run. Defaults to `None`.
        predictions: Frame with the predictions of `classifier` for the target. Defaults to `None`.
        standardizer: Standardizer of the inputs, which `save` writes, too. Defaults to `None`.
        notes: Lines to print below the table.
        encoding: Encoding by `dann.data.csv_table`, which `save` writes, too. Defaults to `None`.

    Attributes:
        runs: The frame, the best run first, with the additional column `gain`: the target accuracy
            minus the target accuracy of the baseline with the same seed; in regression, the
            fraction of the baseline's error that the run removes.
        key: The column that ranks the runs. Scores compare classes, so regression has no ranking.
        measure: `"accuracy"`, or `"mae"` in regression.

    The other arguments except `score` are attributes, too.
    """

    def __init__(
        self,
        runs: Any,
        score: str = "agreement",
        recommendation: Recommendation | None = None,
        classifier: Any = None,
        predictions: pandas.DataFrame | None = None,
        standardizer: Standardizer | None = None,
        notes: Sequence[str] = (),
        encoding: Any = None,
    ):
        self.recommendation, self.classifier = recommendation, classifier
        self.predictions, self.standardizer = predictions, standardizer
        self.notes, self.encoding = list(notes), encoding
        is_candidate = runs["oracle"].eq(False)  # failed runs have NaN
        self.key = f"selection/{score}"
        self.measure = "mae" if "source/mae" in runs else "accuracy"
        if self.measure == "mae":
            runs = runs.drop(columns=[name for name in ACCURACIES if name in runs])
        elif self.key == AGREEMENT:
            adapts = ~runs["setting"].isin([DISTILLED_AVERAGE, BOOSTING, *runs["baseline"]])
            adapted = runs[is_candidate & adapts]
            if AGREEMENT not in runs or adapted[AGREEMENT].isna().any():
                self.key = INFO_MAX
                order = "ranked by InfoMax" if INFO_MAX in runs else "not ranked"
                self.notes.append(f"{order} (agreement needs several seeds)")
        keys = [key for key in dict.fromkeys([self.key, INFO_MAX]) if key in runs]
        if keys:
            # A stable sort keeps the earlier of two runs with equal scores first.
            scores = runs[keys].where(is_candidate)
            runs = runs.loc[scores.sort_values(keys, ascending=False, kind="stable").index]
        if f"target/{self.measure}" not in runs:  # a regression without target labels
            runs = runs.assign(**{f"target/{self.measure}": math.nan})
        trained_with = ["seed", "fold"] if "fold" in runs else ["seed"]
        baselines = runs[runs["setting"].eq(runs["baseline"])].set_index(["setting", *trained_with])
        target = runs[f"target/{self.measure}"].to_numpy()
        references = baselines[f"target/{self.measure}"][~baselines.index.duplicated()]
        pairs = pandas.MultiIndex.from_frame(runs[["baseline", *trained_with]])
        references = references.reindex(pairs).to_numpy()
        gains = 1 - target / references if self.measure == "mae" else target - references
        self.runs: Any = runs.assign(**{GAIN: gains})

    def save(self, directory: str | os.PathLike) -> None:
        """Writes the recommended classifier and its predictions for the target.

        Args:
            directory: Folder for `classifier.keras`, `predictions.csv` and, if the domains have
                them, `encoding.csv` and `standardizer.json`.

        Raises:
            FileExistsError: If the folder contains a training run, or a file of this name that no
                run wrote.
            ValueError: If no classifier was recommended.
        """
        if self.classifier is None:
            raise ValueError(
                "Expected a recommended classifier. Received: none, because every run of the "
                "baseline failed, there are several pairs of domains, or a sweep made this "
                "comparison and saved the classifier itself."
            )
        run = RunDirectory(directory)
        if run.summary_file.exists():
            raise FileExistsError(f"Expected a folder without a training run. Received: {run}")
        run.manifest.check(run.model_files)
        run.save_inputs(self.encoding, self.standardizer)
        run.save_classifier(self.classifier)
        run.write_predictions(self.predictions)

    @property
    def table(self) -> Any:
        """Means and standard deviations over seeds, one row per setting.

        The columns are pairs of a measure and `"count"`, `"mean"` or `"std"`. With several folds,
        each value is the mean over the seeds of a fold, because these runs are not independent.
        """
        measures = [name for name in (*_TITLES, self.key, "seconds") if name in self.runs]
        runs = self.runs
        if "fold" in runs:
            runs = runs.groupby(["setting", "fold"], sort=False)[measures].mean()
        return runs.groupby("setting", sort=False)[measures].agg(["count", "mean", "std"])

    def __repr__(self):  # also of `print`
        table = self.table
        oracles = set(self.runs["setting"][self.runs["oracle"].eq(True)])
        unit = "folds" if "fold" in self.runs else "seeds"
        columns: dict[str, Any] = {unit: table[f"source/{self.measure}"]["count"]}
        for name in map(str, table.columns.unique(level=0)):
            if not table[name]["count"].any():  # a target without labels
                continue
            title = _TITLES.get(name, name.removeprefix("selection/"))
            columns[title] = [_format_cell(name, *row) for row in table[name].to_numpy()]
        frame = pandas.DataFrame(columns).rename_axis(None)
        frame = frame.rename(index={name: f"{name}*" for name in oracles})
        gain = "% less error than" if self.measure == "mae" else "points over"
        lines = [f"mean ± standard deviation over {unit}"]
        if any(name.endswith("*") for name in [*frame.columns, *frame.index]):
            lines[0] += "; * uses target labels (oracle)"
        if "gain*" in frame:
            name = "source_only" if "source_only" in table.index else "source only"  # of a sweep
            lines.append(f"gain: {gain} {name} with the same seed, ± half of its 95% interval")
        lines.append(frame.to_string(line_width=WIDTH))
        lines += [textwrap.fill(note, WIDTH, subsequent_indent="  ") for note in self.notes]
        for run in self.runs[self.runs[f"source/{self.measure}"].isna()].to_dict("records"):
            lines.append(f"failed: {run['setting']}, in {run['run']}")
        if self.recommendation is not None:
            lines.append(self._format_recommendation(self._describe_recommended()))
            lines += ["because:"] if self.recommendation.reasons else []
            for reason in self.recommendation.reasons:
                lines += textwrap.wrap(f"- {reason}", WIDTH, subsequent_indent="  ")
            lines += self._list_doubts()
        return "\n".join(lines)

    def _select_adapted(self):
        candidates = self.runs[self.runs["oracle"].eq(False)]
        return candidates[~candidates["setting"].isin(candidates["baseline"])]

    def _list_doubts(self):
        """Returns lines if source accuracies or target labels speak against the choice."""
        setting, adapted = self.recommendation.setting, self._select_adapted()
        doubts = []
        if self.measure == "accuracy":
            candidates = self.runs[self.runs["oracle"].eq(False)]
            accuracy = candidates.groupby("setting")["source/accuracy"].mean()
            recommended = self.runs["source/accuracy"][self._is_recommended(self.runs)].mean()
            if recommended < accuracy.max() - _MAX_SOURCE_LOSS:
                doubts.append(
                    f"but the source test accuracy of {setting} is {recommended:.1%}, that of "
                    f"{accuracy.idxmax()} {accuracy.max():.1%}"
                )
        gains = adapted.groupby("setting")[GAIN].mean().dropna()
        is_adapted = setting in adapted["setting"].array
        decisive_gains = gains.reindex([setting]) if is_adapted else gains.nlargest(1)
        for name, gain in decisive_gains.items():
            doubts.append(describe_doubt(name, self.measure, gain, is_adapted))
        return [doubt for doubt in doubts if doubt]

    def _describe_misalignment(self):
        """Returns a clause if an adapted network is recommended and all probes speak against it."""
        adapted = self._select_adapted()
        intervals = adapted.reindex(columns=["probe/low", "probe/high"]).dropna()
        alignments = map(name_alignment, intervals["probe/low"], intervals["probe/high"])
        is_baseline = self.recommendation.setting in self.runs["baseline"].array
        if is_baseline or {*alignments} != {"not aligned"}:
            return ""
        # The distilled network never sees the source, so it has no probe.
        names = adapted.loc[intervals.index, ["setting", "run"]].agg(", ".join, axis=1)
        probed = f"probe of {names.iloc[0]}" if len(names) == 1 else f"probes of {len(names)} runs"
        return f"{NOT_ALIGNED} ({probed})"

    def _format_recommendation(self, network):
        has_labels = bool(self.runs[f"target/{self.measure}"].notna().any())
        return format_recommendation(network, has_labels, self._describe_misalignment())

    def _describe_recommended(self):
        setting, run = self.recommendation.key
        if run is None:
            return setting
        text = f"{setting}, {'a new network' if setting == DISTILLED_AVERAGE else f'in {run}'}"
        name = f"target/{self.measure}"
        (value,) = self.runs[name][self._is_recommended(self.runs)]
        if math.isnan(value):
            return text
        candidates = self.runs[name][self.runs["oracle"].eq(False)]
        if self.measure == "mae":
            return f"{text} (target MAE {value:.6g}, best run {candidates.min():.6g})"
        return f"{text} (target accuracy {value:.1%}, best run {candidates.max():.1%})"

    def _is_recommended(self, runs):
        setting, run = self.recommendation.key if self.recommendation else (None, None)
        return runs["setting"].eq(setting) & runs["run"].eq(run)

    def plot(self, path: str | pathlib.Path) -> None:
        """Draws the score that ranks the runs, and the test accuracies, those of the source last.

        Args:
            path: File to write; the extension selects the format.
        """
        runs, target = self.runs.dropna(subset=f"source/{self.measure}"), f"target/{self.measure}"
        name, labels = "MAE" if self.measure == "mae" else "accuracy", {}
        if self.key in runs and runs[self.key].notna().any():
            score = self.key.removeprefix("selection/")
            score += " with other seeds" if self.key == AGREEMENT else ""
            labels[self.key] = f"{score}\n(higher is better)"
        if runs[target].notna().any():
            labels[target] = f"target test {name}\n(needs labels)"
        labels[f"source/{self.measure}"] = f"source test {name}"
        names = list(runs["setting"].unique())
        width = 2.1 * len(labels) + 0.08 * max(map(len, names), default=0)
        figure = Figure(figsize=(1 + width, 1.7 + 0.4 * len(names)), layout="constrained")
        panels = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
        lines, settings = runs["setting"].map(names.index), runs.groupby("setting")["run"]
        # The runs of a row are below each other, because two seeds have the same agreement.
        heights = lines + 0.6 * ((settings.cumcount() + 0.5) / settings.transform("size") - 0.5)
        options: Any = {"color": "#1b4f8f", "clip_on": False}  # no half markers at the edges
        for axes, (measure, label) in zip(panels, labels.items(), strict=True):
            values = runs[measure].astype(float)
            axes.plot(values, heights, "o", fillstyle="none", label="one run", **options)
            means = values.groupby(lines).mean()
            axes.plot(means, means.index, "|", markersize=14, label="mean", **options)
            cross = values[self._is_recommended(runs)].dropna()
            if len(cross):
                axes.plot(cross, heights[cross.index], "kx", label="recommended", clip_on=False)
            axes.grid(axis="y", color="0.9")
            axes.set(xlabel=label, xmargin=0.1)
            axes.locator_params(axis="x", nbins=4, steps=[1, 2, 5, 10])  # more labels would overlap
            if measure == AGREEMENT or measure in ACCURACIES:
                low, high = axes.get_xlim()
                margin = max(0, 0.1 - (high - low)) / 2  # noise looks small
                smallest = -1 if measure == AGREEMENT else 0
                axes.set_xlim(max(low - margin, smallest), min(high + margin, 1))
            if measure in ACCURACIES:
                axes.xaxis.set_major_formatter("{x:.0%}")
        panels[0].set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.4, -0.6))
        if self.recommendation is not None:
            setting, reasons = self.recommendation.setting, self.recommendation.reasons
            for tick in panels[0].get_yticklabels():
                tick.set_fontweight("bold" if tick.get_text() == setting else "normal")
            network, width = f"{setting} (bold)", int(13 * figure.get_figwidth())
            if setting == DISTILLED_AVERAGE:
                network = f"{setting} (bold, a new network distilled from all runs that adapt)"
                reasons = ()
            texts = " ".join(self._format_recommendation(network).split()), *reasons[-1:]
            title = "\n".join(textwrap.fill(text, width) for text in texts)
            figure.suptitle(title, size=10)
        # All runs in the figure have a value in the last panel.
        figure.legend(*panels[-1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(path, dpi=120)


def _format_cell(name, count, mean, std):
    """Formats a mean over seeds, of an accuracy with its spread if there are two seeds."""
    if not count:
        return "-"
    if name == GAIN:
        # Half of the t interval of the paired differences, with `count - 1` degrees of freedom.
        half = stats.t.ppf(0.975, count - 1) * std / math.sqrt(count)
        return f"{100 * mean:+.1f}" + (f" ± {100 * half:.1f}" if count > 1 else "")
    number = "{:.1%}" if name in _TITLES else "{:.1f}" if name == "seconds" else "{:.4f}"
    if name.endswith(("/mae", "/r2")):
        number = "{:.6g}" if name.endswith("/mae") else "{:.3f}"
    if count < 2 or name not in _TITLES:
        return number.format(mean)
    return f"{number.format(mean)} ± {number.format(std)}"
