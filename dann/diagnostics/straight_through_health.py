"""Whether gradients still pass the binary layers of a model."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.batch import parts_of
from dann.adaptation.smooth_task import frozen
from dann.autodiff import gradients
from dann.checks import check_integer
from dann.diagnostics.catalogue import ANY_MODEL, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.layers import Call, calls_of, is_binary
from dann.diagnostics.instruments.vectors import to_numpy

PASSED = 0.1  # share of the gradient that a binary layer must pass


@DIAGNOSTICS.register(
    "straight_through",
    models=ANY_MODEL,
    quick=True,
    like_a_step=True,
    order=100,
    healthy=(
        HealthyRange(
            "binary/*/passed",
            "Gradient through binary layer {}",
            "Share of the units whose gradient is passed on. Near 0 the layer is saturated and "
            "the layers before it stop learning.",
            low=PASSED,
        ),
    ),
)
def straight_through_health(
    model: keras.Layer,
    data: Any,
    *,
    before: Sequence[Any] | None = None,
    steps: int = 1,
) -> dict[str, float]:
    """Measures what becomes of gradients at every layer that makes numbers binary.

    For each layer that is the share of inputs whose gradient passes and, with `before`, earlier
    weights of the model, the share of signs that flip in a step. `docs/diagnostics.md` lists the
    measurements with their formulas and healthy values.

    It measures every `dann.layers.BinarySign`, also within binary layers, and every layer that
    turns other numbers into -1 and +1 only, in functional and sequential networks. The model does
    not change.

    Args:
        before: Result of `model.get_weights()`, `steps` steps ago. Defaults to `None`: no flips.
        steps: Training steps since then, at least 1.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Returns:
        Measurements by name; none if no layer is binary.

    Raises:
        ValueError: If `steps` is below 1, or `before` does not fit the model.

    Example:

    >>> import keras
    >>> from dann.diagnostics import straight_through_health
    >>> from dann.layers import BinarySign
    >>> found = straight_through_health(BinarySign(name="sign"), keras.ops.array([[0.5, -3.0]]))
    >>> found["binary/sign/passed"]
    0.5

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 1.3, for saturation.
    """
    check_integer("steps", steps, 1)
    calls = [call for call in calls_of(model, data) if is_binary(call)]
    earlier = [] if before is None else _calls_at(model, data, before)
    measured: dict[str, float] = {}
    for name in dict.fromkeys(call.name for call in calls):
        own = [call for call in calls if call.name == name]
        found = _passed(own, data)
        if before is not None:
            was = [call for call in earlier if call.name == name]
            found["flips"] = _flips(was, own) / steps
        measured |= {f"binary/{name}/{kind}": value for kind, value in found.items()}
    return measured


def _calls_at(model, data, weights):
    shapes = [tuple(v.shape) for v in model.weights]
    if [np.shape(w) for w in weights] != shapes:
        raise ValueError(
            "Argument `before` must be an earlier result of `model.get_weights()`. Received: "
            f"{len(weights)} arrays for {len(shapes)} weights, or arrays of other shapes"
        )
    values = [
        (v, ops.convert_to_tensor(w, v.dtype)) for v, w in zip(model.weights, weights, strict=True)
    ]
    return [call for call in calls_of(model, data, values) if is_binary(call)]


def _passed(calls: list[Call], data: Any) -> dict[str, float]:
    inputs = np.concatenate([to_numpy(call.inputs) for call in calls])
    passes = np.concatenate([_passes(call) for call in calls])
    found = {
        "passed": float(passes.mean()),
        "saturated": float(1 - passes.mean()),
        "deviation": float(inputs.std()),
    }
    return found | _by_domain(passes, data)


def _passes(call: Call) -> np.ndarray:
    """Returns where a gradient of ones gets through."""
    with frozen(call.layer):
        (slope,) = gradients(lambda x: ops.sum(call.layer(x)), [call.inputs])
    return to_numpy(slope) != 0


def _by_domain(passes, data):
    x = data[0] if isinstance(data, tuple) else None
    if not isinstance(x, dict) or not {"source", "target"} <= set(x):
        return {}
    sizes = {name: len(part) for name, part in parts_of(x).items()}
    if len(passes) != sum(sizes.values()):
        return {}  # weights, or one domain alone
    ends = np.cumsum(list(sizes.values()))
    parts = dict(zip(sizes, np.split(passes, ends[:-1]), strict=True))
    return {f"passed_{name}": float(parts[name].mean()) for name in ("source", "target")}


def _flips(before: list[Call], after: list[Call]) -> float:
    old, new = (
        np.concatenate([to_numpy(call.outputs) for call in calls]) for calls in (before, after)
    )
    return float(np.mean(np.sign(old) != np.sign(new)))
