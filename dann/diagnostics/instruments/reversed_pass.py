"""The backward pass of a method's adversarial loss, with its reversal and without it."""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.smooth_task import frozen
from dann.autodiff import gradients
from dann.diagnostics.instruments.losses import features_of, loss_terms, trains_backbone
from dann.diagnostics.instruments.modes import in_mode
from dann.diagnostics.instruments.vectors import norm, to_numpy

_SCALE = 2.0**10  # of a loss in half precision


class Gradients(NamedTuple):
    """Gradients of a loss, lists of arrays.

    Attributes:
        features: By the features of each part of the pair.
        backbone: By the backbone's weights.
        head: By the other weights.
        before: By the inputs of each call of the reversal.
        after: By the outputs of each call.
    """

    features: list[np.ndarray]
    backbone: list[np.ndarray]
    head: list[np.ndarray]
    before: list[np.ndarray]
    after: list[np.ndarray]


class ReversedPass(NamedTuple):
    """A method on a pair, what its reversal was called with, and its weights."""

    model: AdversarialModel
    data: Any
    training: bool
    features: dict[str, Any]
    calls: list[Any]  # inputs of the reversal
    strength: float
    backbone: list[Any]
    head: list[Any]

    @property
    def size(self) -> float:
        """Norm of all features."""
        return norm([to_numpy(part) for part in self.features.values()])

    def gradients(self, mode: str, taken_out: bool = False) -> Gradients:
        """Returns the gradients in a mode; `taken_out` puts the identity in the reversal's place.

        They are those by tensors of zeros that are added at each place.
        """
        weights = [*self.backbone, *self.head]
        zeros = [ops.zeros(tuple(f.shape)) for f in [*self.features.values(), *self.calls * 2]]
        values = [ops.convert_to_tensor(weight.value) for weight in weights]
        sizes = [len(self.features), len(self.calls), len(self.calls), len(self.backbone)]

        def loss(*xs):
            probes, before, after, *_ = _split(xs, sizes)
            with frozen(self.model, list(zip(weights, xs[len(zeros) :], strict=True))):
                return self._loss(probes, list(zip(before, after, strict=True)), taken_out)

        dtypes = [keras.backend.standardize_dtype(part.dtype) for part in self.features.values()]
        scale = _SCALE if "float16" in dtypes else 1.0  # small gradients vanish there
        scaled = lambda *xs: loss(*xs) * scale  # noqa: E731
        found = in_mode(lambda *xs: gradients(scaled, list(xs)), mode)(*zeros, *values)
        parts = _split([to_numpy(one) / scale for one in found], sizes)
        return Gradients(parts[0], parts[3], parts[4], parts[1], parts[2])

    def _loss(self, probes, added, taken_out):
        features = features_of(self.model, self.data[0], self.training)
        pairs = zip(features.items(), probes, strict=True)
        features = {name: f + ops.cast(probe, f.dtype) for (name, f), probe in pairs}

        def reversal(inputs, training=False):
            before, after = (ops.cast(x, inputs.dtype) for x in added.pop(0))
            inputs = inputs + before
            return (inputs if taken_out else self.model.reversal(inputs, training=training)) + after

        return loss_terms(self.model, self.data, features, self.training, reversal)[1]


def reversed_pass(model: AdversarialModel, data: Any) -> ReversedPass:
    """Runs a compiled method on a pair of tensors once, to see how it calls its reversal."""
    training, calls = trains_backbone(model), []

    def reversal(inputs, training=False):
        calls.append(inputs)
        return model.reversal(inputs, training=training)

    with frozen(model):
        features = features_of(model, data[0], training)
        loss_terms(model, data, features, training, reversal)
        strength = float(to_numpy(ops.convert_to_tensor(model.reversal.strength)))
    backbone = list(model.backbone.trainable_variables)
    known = {id(weight) for weight in backbone}
    head = [weight for weight in model.trainable_variables if id(weight) not in known]
    return ReversedPass(model, data, training, features, calls, strength, backbone, head)


def _split(values, sizes):
    ends = np.cumsum([0, *sizes])
    return [list(values[a:b]) for a, b in zip(ends, [*ends[1:], None], strict=True)]
