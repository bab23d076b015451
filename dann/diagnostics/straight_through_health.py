"""Whether gradients still pass the binary layers of a model, and how biased they are."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.forward_pass import parts_of
from dann.adaptation.smooth_task import frozen
from dann.autodiff import gradients
from dann.checks import check_integer
from dann.diagnostics.catalogue import ANY_MODEL, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.backward_pass import random_sum
from dann.diagnostics.instruments.layer_calls import Call, around_layers, inputs_first
from dann.diagnostics.instruments.losses import features_of, loss_terms, trains_backbone
from dann.diagnostics.instruments.modes import in_mode, inputs_of, mode_of, run_in_training
from dann.diagnostics.instruments.passes import Passes, is_binary, walk
from dann.diagnostics.instruments.vectors import cosine, norm, to_numpy

PASSED = 0.1  # share of the gradient that a binary layer must pass
_WIDTH = 0.3  # of the smoothing, as a share of the inputs' deviation


@DIAGNOSTICS.register(
    "straight_through",
    summary="Measures what becomes of gradients at every layer that makes numbers binary.",
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
    pairs: int = 0,
    before: Sequence[Any] | None = None,
    steps: int = 1,
    mode: str | None = None,
    seed: int = 0,
    passes: Passes | None = None,
) -> dict[str, float]:
    """Measures what becomes of gradients at every layer that makes numbers binary.

    For each layer that is the share of inputs whose gradient passes; with `pairs` above 0, for
    layers of activations, also the bias of the gradient against the derivative of a smoothed loss;
    and with `before`, earlier weights of the model, the share of signs that flip in a step.
    `docs/diagnostics.md` lists the measurements with their formulas and healthy values.

    It measures every `dann.layers.BinarySign`, also within other layers, and every layer that turns
    other numbers into -1 and +1 only. The model does not change.

    Args:
        pairs: Pairs of forward passes for the bias of each layer; use several times the number of
            units. Defaults to `0`: no bias.
        before: Result of `model.get_weights()`, `steps` steps ago. Defaults to `None`: no flips.
        steps: Training steps since then, at least 1.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Returns:
        Measurements by name; none if no layer is binary.

    Raises:
        ValueError: If `pairs` is negative or `steps` below 1, or `before` does not fit the model.

    Example:

    >>> import keras
    >>> from dann.diagnostics import straight_through_health
    >>> from dann.layers import BinarySign
    >>> found = straight_through_health(BinarySign(name="sign"), keras.ops.array([[0.5, -3.0]]))
    >>> found["binary/sign/passed"]
    0.5

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 1.3, for saturation;
          [Kim et al., 2020](https://arxiv.org/abs/2002.06517), section 3, for the bias against a
          smoothed derivative.
    """
    check_integer("pairs", pairs, 0)
    check_integer("steps", steps, 1)
    passes = passes or Passes(model, data)
    data = passes.tensors
    calls = [call for call in passes.walk().calls if is_binary(call)]
    earlier = [] if before is None else _calls_at(model, data, before)
    kernels = _kernel_signs(model)
    measured: dict[str, float] = {}
    for name in dict.fromkeys(call.name for call in calls):
        own = [call for call in calls if call.name == name]
        found = _passed(own, data)
        if before is not None:
            was = [call for call in earlier if call.name == name]
            found["flips"] = _flips(was, own) / steps
        if pairs and id(own[0].layer) not in kernels:
            found |= _bias(model, data, own, pairs, mode or mode_of(model), seed)
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
    return [call for call in walk(model, data, values=values).calls if is_binary(call)]


def _kernel_signs(model):
    """Returns the identities of the layers whose inputs are weights."""
    owners = model._flatten_layers(include_self=True, recursive=True)
    return {id(sign) for owner in owners for sign in getattr(owner, "kernel_signs", ())}


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
        (slope,) = gradients(lambda x: ops.sum(call.again(x)), [call.inputs])
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


def _bias(
    model: keras.Layer, data: Any, calls: list[Call], pairs: int, mode: str, seed: int
) -> dict[str, float]:
    """Compares the gradient of a shift of a layer's inputs with that of the smoothed loss."""
    units = int(calls[0].inputs.shape[-1])
    width = _WIDTH * float(np.concatenate([to_numpy(c.inputs).ravel() for c in calls]).std())
    if width == 0:
        return {}
    loss = _loss_of_shift(model, data, calls[0].layer)
    zero = ops.zeros((units,), "float32")
    (slope,) = in_mode(lambda shift: gradients(loss, [shift]), mode)(zero)
    given = to_numpy(slope)
    directions = np.random.default_rng(seed).normal(size=(pairs, units))
    compiled = in_mode(loss, mode)
    changes = [_change(compiled, width * direction) for direction in directions]
    rates = directions * np.array(changes)[:, None] / (2 * width)  # (pairs, units)
    smoothed = rates.mean(axis=0)
    agreement = cosine([rates[::2].mean(axis=0)], [rates[1::2].mean(axis=0)]) if pairs > 1 else 0.0
    length = norm([smoothed])
    return {
        "bias_cosine": cosine([given], [smoothed]),
        "bias_length": norm([given]) / length if length != 0 else 0.0,
        "bias_ceiling": math.sqrt(2 * agreement / (1 + agreement)) if agreement > 0 else 0.0,
    }


def _change(loss, shift):
    above, below = (
        float(loss(ops.convert_to_tensor(side * shift, "float32"))) for side in (1.0, -1.0)
    )
    return above - below


def _loss_of_shift(model, data, layer) -> Callable[[Any], Any]:
    """Returns the loss as a function of a shift of all inputs of a layer."""

    def loss(shift):
        def around(called, call, args, kwargs):
            if called is not layer:
                return call(*args, **kwargs)
            inputs, args, kwargs = inputs_first(layer, args, kwargs)
            return call(inputs + ops.cast(shift, inputs.dtype), *args, **kwargs)

        with frozen(model), around_layers(around):
            if not isinstance(model, AdversarialModel):
                return random_sum(run_in_training(model, inputs_of(data)))
            training = trains_backbone(model)
            features = features_of(model, data[0], training)
            return loss_terms(model, data, features, training)[0]

    return loss
