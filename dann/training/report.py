"""Console output of a finished run: accuracies, leakage, label-free scores, and a hint."""

from collections.abc import Mapping, Sequence
from typing import Any

from dann.data import DomainPair
from dann.data.probes import Separation
from dann.diagnostics import Leakage
from dann.selection import suggest_source_only

_SEPARATED = 0.9  # five points above the verdict "not aligned" of `dann.diagnostics`


def print_results(
    row: Mapping[str, Any], domains: DomainPair, table: Any, domain_accuracy: Sequence[float]
) -> None:
    """Prints the results of a run.

    Args:
        row: Summary of the run.
        domains: The data.
        table: Predictions for the target, as `dann.training.evaluation.predict_target` returns
            them.
        domain_accuracy: Accuracy of the discriminator in every epoch up to the one that gives the
            final weights. Empty if the method has no such discriminator.
    """
    print(format_leakage(row) if domains.nuisances else format_accuracies(row))
    for domain in ("source", "target"):
        if (accuracy := row.get(f"{domain}/accuracy")) is not None:
            count = len(getattr(domains, f"{domain}_test")[0])
            print(f"{domain} accuracy: {accuracy:.1%} (of {count} test examples)")
    if "target/accuracy" not in row and not domains.nuisances:
        print("target accuracy: unknown (no labels)")
        print(format_label_free_scores(row, table))
    if hint := suggest_baseline(row, domain_accuracy):
        print(hint)


def format_accuracies(row: Mapping[str, Any]) -> str:
    """Formats the accuracies of a run, one line per method.

    The baseline is evaluated after the last step, even if a score chose an earlier epoch of the
    method.
    """
    width = max(14, 2 + len(row["method"]))
    moment = "the last step"
    if "kept_by" in row:
        moment = f"step {row['kept_step']}, chosen by {row['kept_by']}"
    lines = [
        f"seed {row['seed']}, {row['steps']} steps, test accuracy after {moment}",
        f"{'':<{width}}{'source':>10}{'target (oracle)':>18}{'balanced (oracle)':>20}"
        f"{'seconds':>10}",
    ]
    columns = {"source/accuracy": 10, "target/accuracy": 18, "target/balanced_accuracy": 20}
    for name, prefix in (("source only", "source_only/"), (row["method"], "")):
        if f"{prefix}seconds" in row:
            cells = [f"{name:<{width}}"]
            for column, size in columns.items():
                value = row.get(f"{prefix}{column}")
                cells.append(f"{'-' if value is None else f'{value:.1%}':>{size}}")
            lines.append(f"{''.join(cells)}{row[f'{prefix}seconds']:>10.1f}")
    if "source_only/target/accuracy" in row:
        gain = row["target/accuracy"] - row["source_only/target/accuracy"]
        lines.append(f"{'gain':<{width}}{'':>10}{100 * gain:>+11.1f} points")
    return "\n".join(lines)


def format_leakage(row: Mapping[str, Any]) -> str:
    """Formats accuracies and leakage of a run with nuisances, the baseline first."""
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
    return "\n".join(lines)


def format_label_free_scores(row: Mapping[str, Any], table: Any) -> str:
    """Formats the label-free scores of a run and of the baseline, and the predicted class shares.

    Args:
        row: Summary of the run.
        table: Predictions for the target, as `dann.training.evaluation.predict_target` returns
            them.
    """
    lines = []
    for name, value in row.items():
        if name.startswith("selection/"):
            baseline = row.get(f"source_only/{name}")
            note = "" if baseline is None else f"  (source only {baseline:.4f})"
            lines.append(f"{name:<28}{value:>10.4f}{note}")
    shares = table["class"].value_counts(normalize=True).head(10)
    words = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return "\n".join([*lines, f"predicted classes of the target: {words}"])


def describe_separation(row: Mapping[str, Any]) -> str | None:
    """Returns a warning if a probe separates the domains by the adapted features, else `None`.

    The adaptation then had no effect on the features, however confident the predictions are. The
    lower end of the 95% interval of the probe's accuracy must be above 0.9.

    Args:
        row: Summary of a run of a method that adapts.
    """
    if row.get("probe/low", 0.0) <= _SEPARATED:
        return None
    return (
        "not aligned: a new classifier separates source and target by the adapted features, with "
        f"an accuracy of {row['probe/accuracy']:.0%} (chance: 50%). Do not trust the predictions "
        "for the target before you verify some of them"
    )


def suggest_baseline(row: Mapping[str, Any], domain_accuracy: Sequence[float]) -> str | None:
    """Returns a hint to use the source-only model, or `None`; see `suggest_source_only`.

    Args:
        row: Summary of a run with a baseline.
        domain_accuracy: As in `print_results`.
    """
    probe = None
    if "source_only/probe/low" in row:
        probe = Separation(*(row[f"source_only/probe/{field}"] for field in Separation._fields))
    reason = suggest_source_only(
        probe=probe,
        info_max=row.get("selection/info_max"),
        source_only_info_max=row.get("source_only/selection/info_max"),
        domain_accuracy=domain_accuracy[-1] if len(domain_accuracy) else None,
    )
    if reason is None:
        return None
    return f"hint (label-free scores): consider source only, {reason}"
