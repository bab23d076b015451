"""Console output of a finished run: accuracies, leakage, label-free scores, and alignment."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas

from dann.data import DomainPair
from dann.data.nuisances import NUMBER
from dann.diagnostics import Leakage, find_confounded_classes
from dann.diagnostics.catalogue import name_alignment
from dann.selection import AccuracyEstimate, Outputs, ShareEstimate, estimate_shares
from dann.selection.expected_accuracy import estimate_accuracy

_WIDTH = 100  # columns of the console
_SHARE_CHANGE = 0.2  # total variation distance
_MAX_LISTED_CLASSES = 10
_COLUMNS = {
    "source/accuracy": "source",
    "target/accuracy": "target (oracle)",
    "target/balanced_accuracy": "balanced (oracle)",
    "source/mae": "source MAE",
    "target/mae": "target MAE (oracle)",
    "target/r2": "target R2 (oracle)",
    "seconds": "seconds",
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
            `None`: the class shares and the accuracy of the target are not estimated.
    """
    print(format_leakage(row) if domains.nuisances else format_accuracies(row))
    for domain in ("source", "target"):
        count = len(getattr(domains, f"{domain}_test")[0])
        if (accuracy := row.get(f"{domain}/accuracy")) is not None:
            print(f"{domain} accuracy: {accuracy:.1%} (of {count} test examples)")
        if (error := row.get(f"{domain}/mae")) is not None:
            r2 = row[f"{domain}/r2"]
            print(f"{domain} mean absolute error: {error:.6g}, R2 {r2:.3f} (of {count} examples)")
    if domains.target_test[1] is None and not domains.nuisances:
        if domains.is_regression:
            print(f"target error: unknown (no labels)\n{describe_alignment(row)}.")
            return
        print("target accuracy: unknown (no labels)")
        for name in (name for name in row if name.startswith("selection/")):
            baseline = row.get(f"source_only/{name}")
            note = "" if baseline is None else f"  (source only {baseline:.4f})"
            print(f"{name:<28}{row[name]:>10.4f}{note}")
        shares = estimate_shares(outputs) if outputs else None
        accuracy = estimate_accuracy(outputs) if outputs else None
        line = describe_target(row, *compute_class_shares(domains, table), shares, accuracy)
        print(textwrap.fill(line, _WIDTH, subsequent_indent="  "))


def format_accuracies(row: Mapping[str, Any]) -> str:
    """Formats the accuracies of a run as a table with one row per method.

    The baseline is evaluated after the last step, even if a score chose an earlier epoch of the
    method.
    """
    moment = "the last step"
    if "kept_by" in row:
        moment = f"step {row['kept_step']}, chosen by {row['kept_by']}"
    rows = {
        name: [row.get(f"{prefix}{column}") for column in _COLUMNS]
        for name, prefix in (("source only", "source_only/"), (row["method"], ""))
        if f"{prefix}seconds" in row
    }
    table = pandas.DataFrame.from_dict(rows, orient="index", columns=[*_COLUMNS.values()])
    formatters: Any = dict.fromkeys(table, "{:.1%}".format) | {"seconds": "{:.1f}".format}
    formatters |= {title: "{:.6g}".format for title in table if "MAE" in title}
    formatters |= {title: "{:.3f}".format for title in table if "R2" in title}
    lines = [
        f"seed {row['seed']}, {row['steps']} steps, test accuracy after {moment}",
        table.dropna(axis="columns", how="all").to_string(formatters=formatters),
    ]
    if "source_only/target/accuracy" in row:
        gain = row["target/accuracy"] - row["source_only/target/accuracy"]
        lines.append(f"gain: {100 * gain:+.1f} points")
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
            results = row[f"{prefix}leakage"].values()
            lines += [f"  {Leakage(**result)}" for result in results]
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


def compute_class_shares(
    domains: DomainPair, table: pandas.DataFrame
) -> tuple[pandas.Series, pandas.Series]:
    """Returns the predicted class shares of the target and the true ones of the source."""
    classes = domains.class_names or range(domains.num_classes)
    counts = np.bincount(domains.source_train[1], minlength=domains.num_classes)
    predicted = table["class"].value_counts(normalize=True).reindex(classes, fill_value=0.0)
    return predicted, pandas.Series(counts / counts.sum(), predicted.index)


def describe_alignment(row: Mapping[str, Any]) -> str:
    """Returns the alignment of the domains in words, from the probe in the summary of a run."""
    if "probe/low" not in row:
        return "Alignment unknown (no probe)"
    alignment = name_alignment(row["probe/low"], row["probe/high"])
    state = "Alignment undetermined" if alignment == "undetermined" else alignment.capitalize()
    advice = ": do not trust these predictions" if alignment == "not aligned" else ""
    return f"{state} (probe accuracy {row['probe/accuracy']:.0%}, chance 50%){advice}"


def describe_target(
    row: Mapping[str, Any],
    predicted: pandas.Series,
    source: pandas.Series,
    shares: ShareEstimate | None = None,
    accuracy: AccuracyEstimate | None = None,
) -> str:
    """Returns one line about the predictions for a target without labels.

    It combines three results, all without target labels:

    - The alignment, by `dann.diagnostics.catalogue.name_alignment` for a new domain probe on the
      features of the model. If the domains are "not aligned", the classifier gets inputs that it
      was not trained on, however confident its predictions are.
    - The class shares that `dann.selection.estimate_shares` estimates or, if this estimate is
      rejected, the class shares of the predictions. If their distance from the class shares of the
      source, half of the sum of the absolute differences, is at least 0.2, either the class shares
      have changed, or the predictions are wrong.
    - The accuracy to expect, by `dann.selection.expected_accuracy`.

    None of them can show that each class of the target is aligned with the same class of the
    source; `label=50` of `scripts/evaluate.py` measures the accuracy.

    Args:
        row: Summary of the run, with the result of the probe as `probe/<name>` if it was measured.
        predicted: Shares of the classes in the predictions for the target.
        source: Shares of the classes in the source.
        shares: Estimated class shares. Defaults to `None`.
        accuracy: Estimated accuracy. Defaults to `None`.
    """
    words = [describe_alignment(row)]
    title = "predicted class shares"
    if shares is not None and shares.rejection_reason is None:
        title = "estimated class shares on the target"
        predicted = pandas.Series(shares.target, predicted.index)
    distance = (predicted - source).abs().sum() / 2
    if len(source) <= _MAX_LISTED_CLASSES:
        cells = ", ".join(f"{name} {share:.0%}" for name, share in predicted.items())
        cells += f" (source {', '.join(f'{share:.0%}' for share in source)})"
    else:
        cells = f"total variation distance from the source {distance:.0%}"
    differ = "; they differ: label some examples" if distance >= _SHARE_CHANGE else ""
    words.append(f"{title}: {cells}{differ}")
    if accuracy is not None:
        words.append(str(accuracy))
    return f"{'; '.join(words)}."
