"""Console output of a finished run: accuracies, leakage, alignment and recommendation."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas

from dann.data import DomainPair
from dann.data.nuisances import NUMBER
from dann.data.probes import TOO_FEW_EXAMPLES, name_alignment
from dann.diagnostics import find_confounded_classes
from dann.diagnostics.catalogue import MAX_LOSS_FRACTION, MAX_SHARE_DISTANCE
from dann.diagnostics.leakage import Leakage
from dann.selection import estimate_shares
from dann.selection.outputs import Outputs
from dann.selection.shares import ShareEstimate

WIDTH = 100  # columns of the console
NOT_ALIGNED = "the domains are not aligned"
_MAX_LISTED_CLASSES = 10
_MIN_GAIN = 0.01  # smaller gains are noise
# Titles of the measures of a run; those with * use target labels.
TITLES = {
    "source/accuracy": "source",
    "target/accuracy": "target*",
    "target/balanced_accuracy": "balanced*",
    "source/mae": "source MAE",
    "target/mae": "target MAE*",
    "target/r2": "target R2*",
}


def print_results(
    row: Mapping[str, Any],
    domains: DomainPair,
    table: pandas.DataFrame,
    outputs: Outputs | None = None,
) -> None:
    """Prints the results of a run.

    Args:
        row: Summary of the run.
        domains: The data.
        table: Predictions for the target, as `dann.training.evaluation.predict_target` returns
            them.
        outputs: Outputs of the model on held-out source examples and the target. Defaults to
            `None`: the class proportions of the target are not estimated.
    """
    if domains.nuisances:
        print(format_leakage(row))
        return
    print(format_accuracies(row))
    counts = [len(domains.source_test[0]), len(domains.target_test[0])]
    has_labels = domains.target_test[1] is not None
    target = f"{counts[1]} target examples" if has_labels else "the target has no labels"
    print(f"Tested on: {counts[0]} source examples; {target}")
    print(describe_alignment(row))
    if not has_labels and not domains.is_regression:
        shares = estimate_shares(outputs) if outputs else None
        classes = domains.class_names or range(domains.num_classes)
        counts = np.bincount(domains.source_train[1], minlength=domains.num_classes)
        predicted = table["class"].value_counts(normalize=True).reindex(classes, fill_value=0.0)
        source = pandas.Series(counts / counts.sum(), predicted.index)
        print(describe_shares(predicted, source, shares))


def format_accuracies(row: Mapping[str, Any]) -> str:
    """Formats the accuracies of a run as a table with one row per method.

    The baseline is evaluated after the last step, even if a score chose an earlier epoch of the
    method.
    """
    moment = "the last step"
    if "kept_by" in row:
        moment = f"step {row['kept_step']}, chosen by {row['kept_by']}"
    titles = {**TITLES, "seconds": "seconds"}
    rows = {
        name: [row.get(f"{prefix}{column}") for column in titles]
        for name, prefix in (("source only", "source_only/"), (row["method"], ""))
        if f"{prefix}seconds" in row
    }
    table = pandas.DataFrame.from_dict(rows, orient="index", columns=[*titles.values()])
    table = table.dropna(axis="columns", how="all")
    formatters: Any = dict.fromkeys(table, "{:.1%}".format) | {"seconds": "{:.1f}".format}
    formatters |= {title: "{:.6g}".format for title in table if "MAE" in title}
    formatters |= {title: "{:.3f}".format for title in table if "R2" in title}
    measure = "MAE" if "source/mae" in row else "accuracy"
    lines = [
        f"seed {row['seed']}, {row['steps']} steps, test {measure} after {moment}",
        table.to_string(formatters=formatters),
    ]
    if any(title.endswith("*") for title in table):
        lines.append("* measured with target test labels; not used in training")
    if "source_only/target/accuracy" in row:
        gain = row["target/accuracy"] - row["source_only/target/accuracy"]
        lines.append(f"Gain: {100 * gain:+.1f} points")
    return "\n".join(lines)


def format_leakage(row: Mapping[str, Any]) -> str:
    """Formats accuracies and leakage of a run with nuisances, the baseline first.

    In the table of accuracies by class and value of a nuisance, each cell reads
    `baseline → model`. A numeric nuisance is divided into three intervals.
    """
    lines = [f"seed {row['seed']}, {row['steps']} steps, test set, after the last step"]
    for title, prefix in (("strength 0", "source_only/"), (row["method"], "")):
        if f"{prefix}seconds" in row:
            lines.append(
                f"{title}: accuracy {row[f'{prefix}source/accuracy']:.1%}, "
                f"balanced accuracy {row[f'{prefix}source/balanced_accuracy']:.1%}, "
                f"{row[f'{prefix}seconds']:.1f} seconds"
            )
            lines += [f"  {Leakage(**result)}" for result in row[f"{prefix}leakage"].values()]
    prefixes = [p for p in ("source_only/", "") if f"{p}accuracy_by_nuisance" in row]
    for name in row.get("accuracy_by_nuisance", {}):
        tables = [pandas.DataFrame(row[f"{p}accuracy_by_nuisance"][name]) for p in prefixes]
        cells = [table.map("{:.0%}".format, na_action="ignore").fillna("-") for table in tables]
        text = cells[0] if len(cells) == 1 else cells[0] + " → " + cells[1]
        lines.append(f"accuracy by class and {name}:\n{text.to_string()}")
    return "\n".join(lines)


def find_confounded_nuisances(domains: DomainPair) -> list[str]:
    """Returns a sentence for each class with only one value of a nuisance in training examples."""
    nuisances: Any = domains.nuisances
    if not nuisances:
        return []
    labels, names = domains.source_train[1], domains.class_names
    classes = np.array(names)[labels] if names else labels
    return [
        f"nuisance {name}: {confounded}. Hiding {name} hides this class, too"
        for name, values in nuisances.train.items()
        if nuisances.kinds[name] != NUMBER
        for confounded in find_confounded_classes(classes, nuisances.decode(name, values))
    ]


def describe_alignment(row: Mapping[str, Any]) -> str:
    """Returns the alignment of the domains in words, from the probe in the summary of a run.

    The probe compares held-out source examples with training examples of the target.

    The words are those of `dann.data.probes.name_alignment` for a new domain probe on the
    features of the model.
    """
    if "probe/low" not in row:
        return "Alignment: unknown (no probe)"
    alignment = name_alignment(row["probe/low"], row["probe/high"])
    advice = {"not aligned": "do not trust these predictions", "undetermined": TOO_FEW_EXAMPLES}
    line = f"Alignment: {alignment} (probe accuracy {row['probe/accuracy']:.0%}, chance 50%)"
    line += f": {advice[alignment]}" if alignment in advice else ""
    return textwrap.fill(line, WIDTH, subsequent_indent="  ")


def describe_shares(
    predicted: pandas.Series, source: pandas.Series, shares: ShareEstimate | None = None
) -> str:
    """Returns the class proportions of a target without labels in words.

    If their distance from the class proportions of the source, half of the sum of the absolute
    differences, is above 0.2, either the class proportions have changed, or the predictions are
    wrong.

    Args:
        predicted: Shares of the classes in the predictions for the target.
        source: Shares of the classes in the source.
        shares: The result of `dann.selection.estimate_shares`, which replaces `predicted` unless
            it is rejected. Defaults to `None`.
    """
    title = "Predicted class proportions"
    if shares is not None and shares.rejection_reason is None:
        title = "Estimated class proportions on the target, if nothing else changed"
        predicted = pandas.Series(shares.target, predicted.index)
    distance = (predicted - source).abs().sum() / 2
    if len(source) <= _MAX_LISTED_CLASSES:
        cells = ", ".join(f"{name} {share:.0%}" for name, share in predicted.items())
        cells += f" (source {', '.join(f'{share:.0%}' for share in source)})"
    else:
        cells = f"total variation distance from the source {distance:.0%}"
    differ = "; they differ: label some examples" if distance > MAX_SHARE_DISTANCE else ""
    return textwrap.fill(f"{title}: {cells}{differ}", WIDTH, subsequent_indent="  ")


def recommend_classifier(row: Mapping[str, Any], domains: DomainPair) -> str:
    """Returns in words which classifier of a run to use; see `dann.selection.recommend`.

    It recommends none if the classifier did not learn the labels of the source. Target labels do
    not change the choice; a clause states whether they speak against it.

    Args:
        row: Summary of a run with a baseline and its probe, `source_only/probe/low`.
        domains: The data.
    """
    network, prefix, reason = row["method"], "", ""
    if row["source_only/probe/low"] <= 0.5:
        interval = row["source_only/probe/low"], row["source_only/probe/high"]
        is_unknown = name_alignment(*interval) == "undetermined"
        shift = f"shift unknown: {TOO_FEW_EXAMPLES}" if is_unknown else "no visible shift"
        network, prefix = f"source only ({shift})", "source_only/"
    elif row.get("source_only/proportions_explain_shift"):
        reason_for_shift = "other class proportions explain the shift"
        network = f"source only, adapted by `dann.adapt_shares` ({reason_for_shift})"
        prefix = "source_only/"
    elif name_alignment(row.get("probe/low", 0), row.get("probe/high", 1)) == "not aligned":
        reason = NOT_ALIGNED
    labels = domains.source_test[1]
    score = _find_chance_score(row, prefix, labels)
    if score and not prefix and not _find_chance_score(row, "source_only/", labels):
        network, prefix = f"source only ({network} did not learn the labels)", "source_only/"
        reason = ""
    elif score:
        text = f"Recommended: none, because {network} did not learn the labels: {score}"
        return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    measure = "mae" if "source/mae" in row else "accuracy"
    target, reference = (row.get(f"{k}target/{measure}", np.nan) for k in ("", "source_only/"))
    gain = (reference - target) / (reference or 1) if measure == "mae" else target - reference
    doubt = describe_doubt(row["method"], measure, gain, is_recommended=not prefix)
    return format_recommendation(network, domains.target_test[1] is not None, reason, doubt)


def describe_doubt(name: str, measure: str, gain: float, is_recommended: bool) -> str:
    """Returns a clause if target labels speak against a recommendation, otherwise `""`.

    Args:
        name: A network that adapts.
        measure: `"accuracy"` or `"mae"`.
        gain: The gain in accuracy over source only, or the fraction of its MAE that is removed;
            NaN without labels.
        is_recommended: Whether the network is recommended, and not source only.
    """
    unit = "%" if measure == "mae" else " points"
    is_wrong = gain <= -_MIN_GAIN if is_recommended else gain >= _MIN_GAIN
    text = f"but by target labels, the gain of {name} is {100 * gain:+.1f}{unit}"
    return text if is_wrong else ""


def _find_chance_score(row, prefix, labels):
    """Returns the accuracy or R2 on the source if a constant prediction is about as good."""
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    # With rare classes, a useful classifier may be better in only one of the accuracies.
    constant = {"accuracy": shares.max(), "balanced_accuracy": 1 / len(shares), "r2": 0.0}
    scores = {k: row[key] for k in constant if (key := f"{prefix}source/{k}") in row}
    for name, score in scores.items():
        is_doubled = score >= 2 * constant[name] > 0  # with many classes
        if is_doubled or 1 - score <= MAX_LOSS_FRACTION * (1 - constant[name]):
            return ""
    name, score = next(iter(scores.items()))
    if name == "r2":
        return f"source test R2 {score:.2f}"
    return f"source test accuracy {score:.0%}, {constant[name]:.0%} by a constant prediction"


def format_recommendation(network: str, has_labels: bool, reason: str = "", doubt: str = "") -> str:
    """Formats a recommendation, which is not verified without target labels.

    No measurement without labels can show that each class of the target is aligned with the same
    class of the source; `label=50` of `scripts/evaluate.py` measures the accuracy.

    Args:
        network: The recommended network in words.
        has_labels: Whether the accuracy on the target was measured.
        reason: Clause that speaks against the network, such as `NOT_ALIGNED`. Defaults to none.
        doubt: The result of `describe_doubt`. Defaults to none.
    """
    if has_labels:
        text = f"Recommended without target labels: {network}"
        text += f", although {reason}" if reason else ""
        text += f", {doubt}" if doubt else ""
    elif reason:
        text = "Recommended: label some target examples first, because "
        text += f"{reason}; then test {network}"
    else:
        text = f"Recommended: {network}; not verified: label some target examples first"
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
