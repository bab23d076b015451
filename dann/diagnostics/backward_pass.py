"""Backward passes through a model whose reversals are watched, or taken out."""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.autodiff import gradients
from dann.diagnostics.modes import build, in_mode, unchanged
from dann.diagnostics.objective import check_adversarial, loss_terms
from dann.diagnostics.reversals import find_reversals
from dann.diagnostics.taps import (
    Call,
    inputs_first,
    is_floating,
    leaves,
    norm,
    replaced,
    run_in_training,
    to_numpy,
)
from dann.layers import GradientReversal

LOSS_SCALES = (2.0**16, 2.0**8, 1.0)  # in half precision, until all is finite


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Gradients of one pass: at the features, on both sides of each reversal, of the weights."""

    features: list[np.ndarray]
    before: list[np.ndarray]
    after: list[np.ndarray]
    backbone: list[np.ndarray]
    head: list[np.ndarray]

    def are_finite(self) -> bool:
        """Whether every number is."""
        return all(np.isfinite(x).all() for part in vars(self).values() for x in part)


class ReversalPass:
    """A loss as a function of what is added to the features, and around each reversal.

    The features of a plain function are its inputs, and there is nothing else in it.

    Args:
        model: The function.
        inputs: Its inputs, one floating-point tensor or several.
    """

    def __init__(self, model: Any, inputs: Any):
        self.model = model
        self.inputs = inputs
        self.output: int | None = None
        self.calls: list[Call] = []
        self.strengths: dict[int, float] = {}
        self.backbone: list[keras.Variable] = []
        self.head: list[keras.Variable] = []
        self.unreversed: list[bool] | None = None  # which of the head; all
        self.features = [x for x in keras.tree.flatten(inputs) if is_floating(x)]

    @property
    def size(self) -> float:
        """Norm of the features."""
        places = self.features or [self.calls[0].inputs]
        return norm([to_numpy(x) for x in places])

    def each_output(self) -> list["ReversalPass"]:
        """Returns passes whose loss is that of one of the outputs alone, the numbers in them."""
        with self._unchanged():
            outputs = keras.tree.flatten(run_in_training(self.model, self.inputs))
        passes = []
        for index in range(sum(is_floating(output) for output in outputs)):
            one = copy.copy(self)
            one.output = index
            passes.append(one)
        return passes or [self]

    def loss(self, probes: Sequence[Any]) -> Any:
        """Returns the loss, a scalar, with these tensors added to the features."""
        left = iter(probes)
        inputs = keras.tree.map_structure(
            lambda x: x + ops.cast(next(left), x.dtype) if is_floating(x) else x, self.inputs
        )
        return random_sum(run_in_training(self.model, inputs), self.output)

    def measure(self, mode: str, taken_out: bool = False, outside: bool = False) -> Gradients:
        """Runs one backward pass, and in half precision more until nothing overflows.

        Args:
            mode: Where it runs; see `in_mode`.
            taken_out: Whether every reversal is replaced by the identity.
            outside: Whether the derivative is taken of the compiled function, instead of compiling
                the derivative as `fit` does.
        """
        weights = [*self.backbone, *self.head]
        around = [call.inputs for call in self.calls]
        places = [*self.features, *around, *around]
        xs = [ops.zeros(tuple(x.shape), "float32") for x in places]
        xs += [ops.convert_to_tensor(weight.value) for weight in weights]
        counts = [len(self.features), len(around), len(around), len(weights)]

        def scalar(*values):
            probes, before, after, others = _split(values, counts)
            return self._loss_at(probes, before, after, others, taken_out)

        def scaled_by(scale):
            def scaled(*values):
                return scale * scalar(*values)

            if outside:
                return gradients(in_mode(scaled, mode), xs)
            return in_mode(lambda *values: gradients(scaled, list(values)), mode)(*xs)

        sizes = [len(self.features), len(around), len(around), len(self.backbone), len(self.head)]
        found = Gradients([], [], [], [], [])
        for scale in LOSS_SCALES if "float16" in self.dtypes else (1.0,):
            found = Gradients(*_split([to_numpy(x) / scale for x in scaled_by(scale)], sizes))
            if found.are_finite():
                break
        return found

    @property
    def dtypes(self) -> set[str]:
        """Types of numbers that are computed with somewhere."""
        tensors = [*self.features, *(call.inputs for call in self.calls)]
        dtypes = {keras.backend.standardize_dtype(tensor.dtype) for tensor in tensors}
        if isinstance(self.model, keras.Layer):
            dtypes |= {layer.compute_dtype for layer in leaves(self.model).values()}
        return dtypes

    def loss_in(self, mode: str) -> Callable[..., Any]:
        """Returns the loss as a function, in a mode, of tensors to add to the features."""
        weights = [ops.convert_to_tensor(w.value) for w in [*self.backbone, *self.head]]
        nothing = [ops.zeros(()) for _ in self.calls]
        return in_mode(
            lambda *probes: self._loss_at(probes, nothing, nothing, weights, False), mode
        )

    def _unchanged(self, values: Sequence[tuple] = ()) -> Any:
        is_layer = isinstance(self.model, keras.Layer)
        return unchanged(self.model, values) if is_layer else contextlib.nullcontext()

    def _loss_at(self, probes, before, after, weights, taken_out):
        values = list(zip([*self.backbone, *self.head], weights, strict=True))
        with self._unchanged(values), replaced(self._watched(before, after, taken_out)):
            return self.loss(probes)

    def _watched(self, before, after, taken_out):
        """The calls of reversals with tensors added to what goes in and to what comes out."""
        pairs: dict[int, list] = {}
        for call, pair in zip(self.calls, zip(before, after, strict=True), strict=True):
            pairs.setdefault(id(call.layer), []).append(pair)
        layers = {id(call.layer): call.layer for call in self.calls}

        def watched(layer):
            original, left = layer.call, iter(pairs[id(layer)])

            def call(*args, **kwargs):
                inputs, args, kwargs = inputs_first(original, args, kwargs)
                entering, leaving = (ops.cast(x, inputs.dtype) for x in next(left))
                outputs = inputs + entering
                if not taken_out:
                    outputs = original(outputs, *args, **kwargs)
                return outputs + leaving

            return call

        return [(layer, "call", watched(layer)) for layer in layers.values()]


class ModelPass(ReversalPass):
    """The same of a Keras model or layer, whose reversals are looked for.

    The features are what enters its first reversal; the head are the weights used after it alone.
    """

    def __init__(self, model: keras.Layer, inputs: Any):
        super().__init__(model, inputs)
        build(model, inputs)
        with unchanged(model):
            self.calls, order = find_reversals(model, lambda: run_in_training(model, inputs))
            self.strengths = _strengths(self.calls)
        if not self.calls:
            return
        self.features = []
        first = [id(layer) for layer in order].index(id(self.calls[0].layer))
        self.head = [w for layer in order[first + 1 :] for w in layer.trainable_variables]

    def loss(self, probes):
        if not self.calls:
            return super().loss(probes)
        return random_sum(run_in_training(self.model, self.inputs))

    def measure(self, mode, taken_out=False, outside=False):
        found = super().measure(mode, taken_out, outside)
        return dataclasses.replace(found, features=found.before[:1]) if self.calls else found


class PairPass(ReversalPass):
    """The same of a model of `dann.adaptation`: its adversarial loss on a pair, in training."""

    def __init__(self, model: AdversarialModel, data: tuple):
        super().__init__(check_adversarial(model), data)
        self.parts: dict[str, Any] = {}
        with unchanged(model):
            self.calls, _ = find_reversals(
                model, lambda: loss_terms(model, data, on_features=self._remember)
            )
            self.strengths = _strengths(self.calls)
        self.features = list(self.parts.values())
        self.backbone = list(model.backbone.trainable_variables)
        known = {id(weight) for weight in self.backbone}
        self.head = [w for w in model.trainable_variables if id(w) not in known]
        discriminator = getattr(model, "domain_head", None)
        if discriminator is not None:  # what else lies behind the backbone may be reversed
            own = {id(weight) for weight in discriminator.trainable_variables}
            self.unreversed = [id(weight) in own for weight in self.head]

    def each_output(self):
        return [self]

    def _remember(self, features):
        self.parts = dict(features)
        return features

    def loss(self, probes):
        added = dict(zip(self.parts, probes, strict=True))

        def on_features(features):
            return {name: f + ops.cast(added[name], f.dtype) for name, f in features.items()}

        return loss_terms(self.model, self.inputs, on_features)[1]


def random_sum(outputs: Any, only: int | None = None) -> Any:
    """Returns the sum of all numbers that a model gives, each times a fixed normal one.

    Args:
        outputs: Tensors in any structure; those that are not floating-point are left out.
        only: Which of the others to sum. Defaults to `None`: all.
    """
    rng = np.random.default_rng(0)
    total = ops.zeros(())
    floating = [output for output in keras.tree.flatten(outputs) if is_floating(output)]
    for index, output in enumerate(floating):
        if only in (None, index):
            weights = ops.convert_to_tensor(rng.normal(size=tuple(output.shape)), "float32")
            total = total + ops.sum(ops.cast(output, "float32") * weights)
    return total


def _strengths(calls):
    """What the reversals say their strength is in this pass, by the layer's identity."""
    layers = [call.layer for call in calls if isinstance(call.layer, GradientReversal)]
    return {id(layer): float(to_numpy(layer.strength.value)) for layer in layers}


def _split(values, sizes):
    ends = np.cumsum([0, *sizes])
    return [list(values[start:end]) for start, end in zip(ends[:-1], ends[1:], strict=True)]
