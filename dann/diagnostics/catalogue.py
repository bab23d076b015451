"""The diagnostics by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dann.diagnostics.certificate import reversal_certificate
from dann.diagnostics.conflict import gradient_conflict
from dann.diagnostics.feature_distance import feature_distance
from dann.diagnostics.game import game
from dann.diagnostics.jacobians import jacobians
from dann.diagnostics.label_bounds import label_bounds
from dann.diagnostics.parity import way_parity
from dann.diagnostics.propagation import signal_propagation
from dann.diagnostics.sharpness import sharpness
from dann.diagnostics.straight_through import straight_through_health
from dann.diagnostics.winning import who_is_winning

DIAGNOSTICS: dict[str, Callable[..., dict[str, Any]]] = {
    "certificate": reversal_certificate,
    "parity": way_parity,
    "winning": who_is_winning,
    "distance": feature_distance,
    "bounds": label_bounds,
    "conflict": gradient_conflict,
    "jacobians": jacobians,
    "signal": signal_propagation,
    "game": game,
    "straight_through": straight_through_health,
    "sharpness": sharpness,
}

_LIKE_A_STEP = ("certificate", "parity", "conflict", "game", "straight_through", "sharpness")


def choose(
    diagnostics: Sequence[str] | Mapping[str, Callable],
) -> dict[str, Callable[..., dict[str, Any]]]:
    """Returns diagnostics by name.

    Args:
        diagnostics: Names in `DIAGNOSTICS`, or functions by any name.

    Raises:
        TypeError: If it is a single name.
        ValueError: If a name is unknown or there is none.
    """
    if isinstance(diagnostics, str):
        raise TypeError(
            f"Argument `diagnostics` must be a list of names. Received: the string {diagnostics!r}"
        )
    if isinstance(diagnostics, Mapping):
        return dict(diagnostics)
    unknown = [name for name in diagnostics if name not in DIAGNOSTICS]
    if unknown or not diagnostics:
        raise ValueError(
            f"Argument `diagnostics` must hold some of {sorted(DIAGNOSTICS)}. "
            f"Received: {unknown or list(diagnostics)}"
        )
    return {name: DIAGNOSTICS[name] for name in diagnostics}


def measure(
    model: Any,
    data: Any,
    diagnostics: Sequence[str] | Mapping[str, Callable] = tuple(DIAGNOSTICS),
    few: int = 32,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Runs diagnostics on examples, and passes over those that the model is not made for.

    Args:
        model: The model.
        data: Examples, `({"source": inputs, "target": inputs}, labels)`.
        diagnostics: Names in `DIAGNOSTICS`, or functions by any name. Defaults to all.
        few: So many examples of each domain at most for what works like a training step:
            `"certificate"`, `"parity"`, `"conflict"`, `"game"`, `"straight_through"` and
            `"sharpness"`. Defaults to `32`.

    Returns:
        Values by name, and for each diagnostic that raised a `TypeError` or `ValueError` what it
        said.
    """
    found, left_out = {}, {}
    for name, function in choose(diagnostics).items():
        try:
            found.update(function(model, first(data, few) if name in _LIKE_A_STEP else data))
        except (TypeError, ValueError) as error:
            left_out[name] = str(error)
    return found, left_out


def first(data: Any, count: int) -> tuple[dict[str, Any], np.ndarray]:
    """Returns the first examples of each domain, and their labels.

    Args:
        data: `({"source": inputs, "target": inputs}, labels)`; a labelled target stays whole.
        count: Number of examples, at most.
    """
    x, y = data
    labels = np.asarray(y)
    of_source, others = np.split(labels, [len(x["source"])])
    parts = {name: part if name == "target_labelled" else part[:count] for name, part in x.items()}
    return parts, np.concatenate([of_source[:count], others])


def scalars(measurements: Mapping[str, Any]) -> dict[str, float]:
    """Returns the single numbers among measurements."""
    return {
        name: float(value)
        for name, value in measurements.items()
        if not isinstance(value, str) and np.ndim(value) == 0
    }
