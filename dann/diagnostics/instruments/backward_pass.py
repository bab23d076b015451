"""Backward passes through a model, with its reversals watched or taken out."""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.smooth_task import frozen
from dann.autodiff import gradients
from dann.diagnostics.instruments.layer_calls import (
    Call,
    around_layers,
    inputs_first,
    is_floating,
    leaves,
)
from dann.diagnostics.instruments.losses import (
    check_adversarial,
    features_of,
    loss_terms,
    trains_backbone,
)
from dann.diagnostics.instruments.modes import in_mode, inputs_of, run_in_training
from dann.diagnostics.instruments.passes import Passes, find_reversals
from dann.diagnostics.instruments.vectors import norm, to_numpy

LOSS_SCALES = (2.0**16, 2.0**8, 1.0)  # tried in half precision, until all is finite


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Gradients of one pass: at the features, on both sides of each reversal, of the weights."""

    features: list[np.ndarray]
    before: list[np.ndarray]
    after: list[np.ndarray]
    backbone: list[np.ndarray]
    head: list[np.ndarray]

    def are_finite(self) -> bool:
        """Returns whether every number is finite."""
        return all(np.isfinite(x).all() for part in vars(self).values() for x in part)


class BackwardPass:
    """A loss as a function of tensors added to the features and on both sides of each reversal.

    The features of a plain function are its inputs, and it has no reversals.
    """

    def __init__(self, passes: Passes):
        self.model = passes.model
        self.inputs = inputs_of(passes.tensors)
        self.output: int | None = None
        self.calls: list[Call] = []
        self.strengths: dict[int, float] = {}
        self.backbone: list[keras.Variable] = []
        self.head: list[keras.Variable] = []
        self.unreversed: list[bool] | None = None  # which weights of the head; None: all
        self.features = [x for x in keras.tree.flatten(self.inputs) if is_floating(x)]

    @property
    def size(self) -> float:
        """Norm of the features."""
        places = self.features or [self.calls[0].inputs]
        return norm([to_numpy(x) for x in places])

    def each_output(self) -> list["BackwardPass"]:
        """Returns a pass for each floating-point output, with the loss of that output alone."""
        with self._unchanged():
            outputs = keras.tree.flatten(run_in_training(self.model, self.inputs))
        passes = []
        for index in range(sum(is_floating(output) for output in outputs)):
            passes.append(copy.copy(self))
            passes[-1].output = index
        return passes or [self]

    def loss(self, probes: Sequence[Any], around: "Around") -> Any:
        """Returns the loss with these tensors added to the features, a scalar.

        `around` runs each call of a reversal.
        """
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
            outside: Whether to take the derivative of the compiled function, instead of compiling
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
        """All types of numbers that the pass computes with."""
        tensors = [*self.features, *(call.inputs for call in self.calls)]
        dtypes = {keras.backend.standardize_dtype(tensor.dtype) for tensor in tensors}
        if isinstance(self.model, keras.Layer):
            dtypes |= {layer.compute_dtype for layer in leaves(self.model).values()}
        return dtypes

    def loss_in(self, mode: str) -> Callable[..., Any]:
        """Returns the loss in a mode, as a function of tensors to add to the features."""
        weights = [ops.convert_to_tensor(w.value) for w in [*self.backbone, *self.head]]
        nothing = [ops.zeros(()) for _ in self.calls]
        return in_mode(
            lambda *probes: self._loss_at(probes, nothing, nothing, weights, False), mode
        )

    def _unchanged(self, values: Sequence[tuple] = ()) -> Any:
        is_layer = isinstance(self.model, keras.Layer)
        return frozen(self.model, values) if is_layer else contextlib.nullcontext()

    def _loss_at(self, probes, before, after, weights, taken_out):
        values = list(zip([*self.backbone, *self.head], weights, strict=True))
        with self._unchanged(values):
            return self.loss(probes, Around(self.calls, before, after, taken_out))


class ModelPass(BackwardPass):
    """The backward pass through a Keras model or layer; it finds the reversals.

    The features are the inputs of the first reversal; the head is the weights used only after it.
    """

    def __init__(self, passes: Passes):
        super().__init__(passes)
        walk = passes.walk()
        self.calls = find_reversals(self.model, walk)
        self.strengths = walk.strengths
        if not self.calls:
            return
        self.features = []
        first = [id(layer) for layer in walk.order].index(id(self.calls[0].layer))
        self.head = [w for layer in walk.order[first + 1 :] for w in layer.trainable_variables]

    def loss(self, probes, around):
        if not self.calls:
            return super().loss(probes, around)
        with around_layers(around):
            return random_sum(run_in_training(self.model, self.inputs))

    def measure(self, mode, taken_out=False, outside=False):
        found = super().measure(mode, taken_out, outside)
        return dataclasses.replace(found, features=found.before[:1]) if self.calls else found


class PairPass(BackwardPass):
    """The backward pass of the adversarial loss of a model of `dann.adaptation` on a pair."""

    def __init__(self, passes: Passes):
        super().__init__(passes)
        model = check_adversarial(self.model)
        self.training = trains_backbone(model)
        self.data = passes.tensors
        walk = passes.walk(self.training)
        self.calls = find_reversals(model, walk)
        self.strengths = walk.strengths
        self.parts: dict[str, Any] = walk.outputs.features
        self.features = list(self.parts.values())
        self.backbone = list(model.backbone.trainable_variables)
        known = {id(weight) for weight in self.backbone}
        self.head = [w for w in model.trainable_variables if id(w) not in known]
        discriminator = getattr(model, "domain_head", None)
        if discriminator is not None:  # other weights behind the backbone may be reversed
            own = {id(weight) for weight in discriminator.trainable_variables}
            self.unreversed = [id(weight) in own for weight in self.head]
        self.watched = self._needs_watch()

    def each_output(self):
        return [self]

    def loss(self, probes, around):
        features = features_of(self.model, self.inputs, self.training)
        added = dict(zip(self.parts, probes, strict=True))
        features = {name: f + ops.cast(added[name], f.dtype) for name, f in features.items()}
        own = self.model.reversal

        def reversal(*args, **kwargs):
            return around(own, own, args, kwargs)

        if not self.watched:
            return loss_terms(self.model, self.data, features, self.training, reversal)[1]
        with around_layers(around):
            return loss_terms(self.model, self.data, features, self.training)[1]

    def _needs_watch(self):
        """Whether some reversals do not go through `reversal=`, such as those within a network."""
        own, reached = self.model.reversal, []

        def reversal(*args, **kwargs):
            reached.append(args)
            return own(*args, **kwargs)

        with self._unchanged():
            self.model.from_features(self.parts, self.training, reversal)
        return [call.layer for call in self.calls] != [own for _ in reached]


class Around:
    """Runs the calls of reversals, with tensors added before and behind each, in order.

    Any other layer, and any further call, runs as it is.

    Args:
        calls: The calls of one pass.
        before: Tensors for the inputs of each call.
        after: Tensors for the outputs of each call.
        taken_out: Whether every reversal is replaced by the identity.
    """

    def __init__(self, calls: Sequence[Call], before: Any, after: Any, taken_out: bool):
        self.taken_out = taken_out
        self.left: dict[int, list] = {}
        for call, pair in zip(calls, zip(before, after, strict=True), strict=True):
            self.left.setdefault(id(call.layer), []).append(pair)

    def __call__(self, layer: Any, call: Callable, args: tuple, kwargs: dict) -> Any:
        if not self.left.get(id(layer)):
            return call(*args, **kwargs)
        inputs, args, kwargs = inputs_first(layer, args, kwargs)
        entering, leaving = (ops.cast(x, inputs.dtype) for x in self.left[id(layer)].pop(0))
        outputs = inputs + entering
        if not self.taken_out:
            outputs = call(outputs, *args, **kwargs)
        return outputs + leaving


def random_sum(outputs: Any, only: int | None = None) -> Any:
    """Returns the sum of all numbers in outputs, each times a fixed random number.

    Args:
        outputs: Tensors in any structure; those that are not floating-point are left out.
        only: Index of the one floating-point output to sum. Defaults to `None`: all.
    """
    rng = np.random.default_rng(0)
    total = ops.zeros(())
    floating = [output for output in keras.tree.flatten(outputs) if is_floating(output)]
    for index, output in enumerate(floating):
        if only in (None, index):
            weights = ops.convert_to_tensor(rng.normal(size=tuple(output.shape)), "float32")
            total = total + ops.sum(ops.cast(output, "float32") * weights)
    return total


def _split(values, sizes):
    ends = np.cumsum([0, *sizes])
    return [list(values[start:end]) for start, end in zip(ends[:-1], ends[1:], strict=True)]
