"""The table that a run prints at its end."""

from collections.abc import Mapping
from typing import Any


def accuracy_table(summary: Mapping[str, Any]) -> str:
    """Formats the accuracies of a summary, one line a method, with the oracle's marked.

    The baseline is the one of the last step, also where a score chose the method's weights.
    """
    rows = [(summary["method"], "")]
    if "source_only/target/accuracy" in summary:
        rows.insert(0, ("source only", "source_only/"))
    after = "the last step"
    if "kept_by" in summary:
        after = f"step {summary['kept_step']}, which {summary['kept_by']} chose"
        after += " (source only: the last step)" if len(rows) == 2 else ""
    lines = [
        f"seed {summary['seed']}, {summary['steps']} steps, test accuracy after {after}",
        f"{'':<14}{'source':>10}{'target (oracle)':>18}{'seconds':>10}",
    ]
    for name, prefix in rows:
        source, target, seconds = (
            summary[f"{prefix}{key}"] for key in ("source/accuracy", "target/accuracy", "seconds")
        )
        lines.append(f"{name:<14}{source:>10.1%}{target:>18.1%}{seconds:>10.1f}")
    if len(rows) == 2:
        gain = summary["target/accuracy"] - summary["source_only/target/accuracy"]
        lines.append(f"{'gain':<14}{'':>10}{100 * gain:>+11.1f} points")
    return "\n".join(lines)
