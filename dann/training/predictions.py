"""What a run measures on its test sets and predicts for the target, and how it prints that."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas
from scipy.special import softmax
from sklearn.metrics import recall_score

from dann.data import DomainPair
from dann.diagnostics.leakage import Leakage, leakage
from dann.training.run_callbacks import HostModel

_APART = 0.97  # of a discriminator that the features do not confuse
_MOST = 5000  # examples of a test set that probes of nuisances see
_ACCURACIES = "source/accuracy", "source/balanced_accuracy"


def accuracies(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Returns `accuracy` and `balanced_accuracy` of class numbers `(n,)`, both in [0, 1].

    The balanced accuracy is the mean over the classes of `labels` of the share of their examples
    that is right, `sklearn.metrics.balanced_accuracy_score`. Always predicting one of `k` classes
    gives `1 / k`, however frequent it is.
    """
    # That function warns of predicted classes that `labels` lack.
    balanced = recall_score(labels, predicted, labels=np.unique(labels), average="macro")
    return {"accuracy": float(np.mean(predicted == labels)), "balanced_accuracy": float(balanced)}


def leakage_of_test(host: HostModel, domains: DomainPair, seed: int) -> dict[str, Any]:
    """Returns what is left of each nuisance in the features of at most 5,000 test examples.

    By name they are the attributes of a `dann.diagnostics.Leakage`; with `condition_on_label` there
    is also `<name> given the label`. Groups stay on one side, except for a nuisance of which each
    value is in a single group, as a person's name is. What cannot be measured is a warning.
    """
    inputs, labels = domains.source_test
    held: Any = domains.nuisances
    rows = np.sort(np.random.default_rng(seed).permutation(len(labels))[:_MOST])
    features = host.predict(host.model.backbone, inputs[rows])
    given = labels[rows] if host.model.condition_on_label else None
    found = {}
    for name, values in held.test.items():
        groups = None if _has_own_groups(values, held.groups) else held.groups[rows]
        try:
            found |= leakage(features, None, {name: values[rows]}, given, groups, seed)
        except ValueError as error:  # a finished training is a result without it
            print(f"warning: leakage of {name} is not measured: {error}", file=sys.stderr)
    return {name: one._asdict() for name, one in found.items()}


def _has_own_groups(values, groups):
    if groups is None or values.dtype.kind == "f":
        return groups is None
    return len({*zip(values.tolist(), groups.tolist(), strict=True)}) == len(np.unique(values))


def predict_target(
    domains: DomainPair,
    predict: Callable[[Any], np.ndarray],
    splits: Sequence[str] = ("train", "test"),
) -> Any:
    """Returns the classes predicted for the target as a pandas frame. It reads no labels.

    Args:
        domains: The data.
        predict: Function of inputs that returns logits `(n, classes)`.
        splits: Which of the target's examples, `"train"` and `"test"`.

    Returns:
        A frame with the columns `split`; `example`, the file or the row; `class`, its name or
        number; and `probability`, the softmax of the logits at that class.
    """
    inputs = {"train": domains.target_train, "test": domains.target_test[0]}
    names = dict(zip(inputs, domains.target_names or (None, None), strict=True))
    classes = np.array(domains.class_names or range(domains.num_classes))
    tables = []
    for split in splits:
        shares = softmax(predict(inputs[split]), axis=1)
        columns = {
            "split": split,
            "example": np.arange(len(shares)) if names[split] is None else names[split],
            "class": classes[shares.argmax(axis=1)],
            "probability": shares.max(axis=1).round(4),
        }
        tables.append(pandas.DataFrame(columns))
    return pandas.concat(tables, ignore_index=True)


def accuracy_table(summary: Mapping[str, Any]) -> str:
    """Formats the accuracies of a summary, one line a method, with the oracle's marked.

    The baseline is the one of the last step, also where a score chose the method's weights.
    """
    width = max(14, 2 + len(summary["method"]))
    after = "the last step"
    if "kept_by" in summary:
        after = f"step {summary['kept_step']}, which {summary['kept_by']} chose"
    lines = [
        f"seed {summary['seed']}, {summary['steps']} steps, test accuracy after {after}",
        f"{'':<{width}}{'source':>10}{'target (oracle)':>18}{'balanced':>10}{'seconds':>10}",
    ]
    shares = {name: f"{value:.1%}" for name, value in summary.items() if "accuracy" in name}
    columns = {"source/accuracy": 10, "target/accuracy": 18, "target/balanced_accuracy": 10}
    for name, prefix in (("source only", "source_only/"), (summary["method"], "")):
        if f"{prefix}seconds" in summary:
            cells = [f"{shares.get(prefix + key, '-'):>{size}}" for key, size in columns.items()]
            lines.append(f"{name:<{width}}{''.join(cells)}{summary[f'{prefix}seconds']:>10.1f}")
    if "source_only/target/accuracy" in summary:
        gain = summary["target/accuracy"] - summary["source_only/target/accuracy"]
        lines.append(f"{'gain':<{width}}{'':>10}{100 * gain:>+11.1f} points")
    return "\n".join(lines)


def nuisance_report(summary: Mapping[str, Any]) -> str:
    """Formats accuracies and leakage of a run with nuisances, those of its baseline first."""
    lines = [f"seed {summary['seed']}, {summary['steps']} steps, test set after the last step"]
    for title, prefix in (("strength 0", "source_only/"), (summary["method"], "")):
        if f"{prefix}seconds" in summary:
            one = {name: summary[f"{prefix}{name}"] for name in (*_ACCURACIES, "seconds")}
            accuracy, balanced, seconds = one.values()
            told = f"accuracy {accuracy:.1%}, balanced {balanced:.1%}, {seconds:.1f} seconds"
            left = [f"  {Leakage(**one)}" for one in summary[f"{prefix}leakage"].values()]
            lines += [f"{title}: {told}", *left]
    return "\n".join(lines)


def label_free_table(summary: Mapping[str, Any], predictions: Any) -> str:
    """Formats the label-free scores of a run, beside its baseline's, and its classes' shares.

    Args:
        summary: Of a run.
        predictions: What `predict_target` returns.
    """
    lines = []
    for name, value in summary.items():
        if name.startswith("selection/"):
            baseline = summary.get(f"source_only/{name}")
            beside = "" if baseline is None else f"  (source only {baseline:.4f})"
            lines.append(f"{name:<28}{value:>10.4f}{beside}")
    shares = predictions["class"].value_counts(normalize=True).head(10)
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return "\n".join([*lines, f"predicted for the target: {told}"])


def source_only_remark(summary: Mapping[str, Any], domain_accuracy: Sequence[float]) -> str | None:
    """Says that the source alone is likely to be better, if signs without labels say so.

    They are a domain probe that sees no shift; or a lower InfoMax together with a discriminator
    that the features do not confuse. Either alone is common where the method helps.

    Args:
        summary: Of a run with a baseline.
        domain_accuracy: The discriminator's accuracy in every epoch up to the one whose weights are
            kept, if there is one.

    Returns:
        A line, or `None`.
    """
    own, baseline = (summary.get(f"{of}selection/info_max") for of in ("", "source_only/"))
    told_apart = domain_accuracy[-1] if len(domain_accuracy) else 0.0
    if None not in (own, baseline) and own < baseline and told_apart > _APART:
        return (
            f"keep source only: its InfoMax is {baseline:.2f}, that of {summary['method']} "
            f"{own:.2f}, and the discriminator still tells the domains apart in {told_apart:.0%}"
        )
    if summary.get("source_only/probe/low", 1.0) <= 0.5:
        return (
            "keep source only: no shift is seen, no probe tells the domains apart by its features"
        )
    return None
