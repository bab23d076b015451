"""What a run measures and tells of nuisances."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from dann.data import DomainPair
from dann.diagnostics.leakage import Leakage, leakage
from dann.training.run_callbacks import HostModel

_MOST = 5000  # examples of a test set that probes see
_ACCURACIES = "source/accuracy", "source/balanced_accuracy"


def leakage_of_test(host: HostModel, domains: DomainPair, seed: int) -> dict[str, Any]:
    """Returns what is left of each nuisance in the features of at most 5,000 test examples.

    By name they are the attributes of a `dann.diagnostics.Leakage`; with `given_label` there is
    also `<name> given the label`. Groups stay on one side, except for a nuisance of which each
    value is in a single group, as a person's name is. What cannot be measured is a warning.
    """
    inputs, labels = domains.source_test
    held: Any = domains.nuisances
    rows = np.sort(np.random.default_rng(seed).permutation(len(labels))[:_MOST])
    features = host.predict(host.model.backbone, inputs[rows])
    given = labels[rows] if host.model.given_label else None
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
