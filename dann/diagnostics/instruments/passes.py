"""The forward passes that diagnostics read; each runs once and is shared.

Also says whether a call of a layer makes numbers binary, passes them on or reverses the gradient.
"""

import functools
import re
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.smooth_task import frozen
from dann.autodiff import gradients
from dann.diagnostics.instruments.layer_calls import Call, is_floating, leaves, record_calls
from dann.diagnostics.instruments.modes import as_tensors, inputs_of, run_in_training
from dann.diagnostics.instruments.pair_outputs import PairOutputs, pair_outputs
from dann.diagnostics.instruments.vectors import cosine, to_numpy
from dann.layers import BinarySign, GradientReversal

ROUNDING = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}

_REVERSES = re.compile(r"revers|grl", re.IGNORECASE)


class Walk(NamedTuple):
    """The record of one pass of a batch through a model.

    Attributes:
        calls: Calls whose backward pass may differ from the derivative: of layers that pass their
            input on, that make it binary, or that have a `way`.
        order: All layers without inner layers, in the order of their first call.
        outputs: The outputs of the model.
        strengths: Strength of each `GradientReversal` in this pass, by the layer's identity.
    """

    calls: list[Call]
    order: list[keras.Layer]
    outputs: Any
    strengths: dict[int, float]


class Passes:
    """A model and a batch, and the forward passes run so far.

    `model` and `data` are those of a diagnostic. The model does not change.
    """

    def __init__(self, model: Any, data: Any):
        self.model = model
        self.data = data
        self._walks: dict[bool, Walk] = {}
        self._outputs: dict[int, PairOutputs] = {}

    @functools.cached_property
    def tensors(self) -> Any:
        """The batch as tensors."""
        return as_tensors(self.data)

    def outputs(self, batch_size: int = 256) -> PairOutputs:
        """Returns the model's outputs for both domains, in inference; see `pair_outputs`."""
        if batch_size not in self._outputs:
            self._outputs[batch_size] = pair_outputs(self.model, self.data, batch_size)
        return self._outputs[batch_size]

    def walk(self, training: bool = True) -> Walk:
        """Returns the calls of layers in one pass; see `walk`."""
        if training not in self._walks:
            self._walks[training] = walk(self.model, self.tensors, training)
        return self._walks[training]


def walk(model: keras.Layer, data: Any, training: bool = True, values: Any = ()) -> Walk:
    """Runs a batch of tensors through a model and returns the calls of its layers.

    Args:
        model: Keras model or layer.
        data: The batch.
        training: Whether the layers work as in a training step. Those of a model from elsewhere
            than `dann.adaptation` always do.
        values: Pairs of a variable and the tensor that it reads as instead.
    """
    inputs, order, outputs = inputs_of(data), {}, []

    def keep(call):
        order.setdefault(id(call.layer), call.layer)
        return has_a_way(call) or is_binary(call) or passes_on(call)

    def run():
        pair = isinstance(model, AdversarialModel)
        outputs.append(model(inputs, training=training) if pair else run_in_training(model, inputs))

    if not model.built:
        model(inputs)  # `leaves` finds only layers that exist
    with frozen(model, values):
        calls = record_calls(leaves(model), run, keep)
        reversals = [layer for layer in order.values() if isinstance(layer, GradientReversal)]
        strengths = {id(layer): float(to_numpy(layer.strength.value)) for layer in reversals}
    return Walk(calls, list(order.values()), outputs[0], strengths)


def has_a_way(call: Call) -> bool:
    """Whether the layer can build its gradient in several ways."""
    return isinstance(getattr(call.layer, "way", None), str) and is_floating(call.inputs)


def passes_on(call: Call) -> bool:
    """Whether the outputs of a call are its inputs, except for rounding."""
    if not _keeps_shape(call):
        return False
    before, after = to_numpy(call.inputs), to_numpy(call.outputs)
    # A reversal by stop_gradient may round twice.
    close = 4 * ROUNDING[keras.backend.standardize_dtype(call.inputs.dtype)]
    size = np.max(np.abs(before), initial=0.0, where=np.isfinite(before))
    return np.allclose(before, after, rtol=close, atol=close * size, equal_nan=True)


def is_binary(call: Call) -> bool:
    """Whether the layer is a `BinarySign`, or turns other numbers into -1 and +1 only."""
    if isinstance(call.layer, BinarySign):
        return is_floating(call.inputs) and is_floating(call.outputs)
    return (
        _keeps_shape(call)
        and _all_signs(to_numpy(call.outputs))
        and not _all_signs(to_numpy(call.inputs))
    )


def find_reversals(model: keras.Layer, seen: Walk) -> list[Call]:
    """Returns the calls of reversals in one pass.

    A reversal is a layer that passes one tensor on unchanged and

    - is a `dann.layers.GradientReversal`, or the attribute `reversal` of the model, or
    - has `revers` or `grl` in the name of its class or in its own, and is not one of Keras' own, as
      a `Dropout` named `grl_dropout` is, or
    - reverses the gradient, under any name.
    """
    by_role = getattr(model, "reversal", None)
    return [
        call
        for call in seen.calls
        if passes_on(call)
        and (
            call.layer is by_role
            or isinstance(call.layer, GradientReversal)
            or _is_named(call.layer)
            or _turns_around(call)
        )
    ]


def _keeps_shape(call):
    floating = is_floating(call.inputs) and is_floating(call.outputs)
    return floating and tuple(call.inputs.shape) == tuple(call.outputs.shape)


def _all_signs(values):
    return values.size > 0 and bool(np.all(np.abs(values) == 1))


def _is_named(layer: Any) -> bool:
    """Whether a name says that the layer reverses, and a user wrote the layer."""
    kind = type(layer)
    # A user wrote the function of a `Lambda` too.
    if kind.__module__.split(".")[0] == "keras" and kind is not keras.layers.Lambda:
        return False
    return any(_REVERSES.search(name) for name in (kind.__name__, layer.name))


def _turns_around(call: Call) -> bool:
    """Whether the layer's own gradient points against what flows back into it."""
    shape = tuple(call.inputs.shape)
    upstream = np.random.default_rng(0).normal(size=shape)
    weights = ops.cast(ops.convert_to_tensor(upstream, "float32"), call.inputs.dtype)
    with frozen(call.layer):
        (gradient,) = gradients(lambda x: ops.sum(call.again(x) * weights), [call.inputs])
    return cosine([to_numpy(gradient)], [upstream]) < -0.5
