"""What goes into a forward pass on a pair, what comes out, and what a step descends."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from dann.adaptation.masks import joined, run, split_rows, with_mask_of

HALF = ("float16", "bfloat16")
PARTS = ("source", "target", "target_labelled")  # in the order of a joint pass


class DomainScores(NamedTuple):
    """What one network says of each example of both domains.

    Attributes:
        source: Tensor `(batch, k)`, of maps `(batch, ..., k)`.
        target: The same of the target.
    """

    source: Any
    target: Any


def through_reversal(
    reversal: Callable[..., Any], network: Callable[..., Any], features: dict, training: bool
) -> DomainScores:
    """Runs a network of features and `training` once over both domains, behind the reversal."""
    domains = features["source"], features["target"]
    both = joined(*domains)
    scores = run(network, with_mask_of(both, reversal(both, training=training)), training)
    return DomainScores(*split_rows(scores, [size_of(part) for part in domains]))


class ForwardPass(NamedTuple):
    """What a model gives for a pair of domains, and what a step needs to repeat the pass.

    Attributes:
        features: Features `(batch, num_features)`, or maps of them `(batch, ..., num_features)`, by
            part of the pair: `"source"`, `"target"` and `"target_labelled"` where there is one.
        logits: Logits of the classes `(batch, num_classes)`, or maps of them, by the same names;
            those of the target only where the method or a regularizer needs them.
        adversary: What the method's own networks gave, as the method's `adversary` returns it;
            `None` where a method has none.
        start: Values of the model's non-trainable variables before the pass, if it was a training
            step's of a model with a `task_radius`; otherwise `None`, as from `from_features`.
    """

    features: dict[str, Any]
    logits: dict[str, Any]
    adversary: Any = None
    start: tuple[Any, ...] | None = None

    @property
    def label(self) -> Any:
        """Logits that belong to the labels, in their order."""
        return labelled_parts(self.logits)


class Losses(NamedTuple):
    """The losses of a pair, scalars. Nothing is logged until `AdversarialModel.compute_loss`.

    Attributes:
        label: Loss of the labels by the label head.
        adversarial: Terms that the method adds, by name.
        regularization: Sum of what the regularizers add, each times its weight.
        others: Further terms by name, such as the label loss of a second head.
        logged: By name, the arguments for `update_state` of the tracker of that name.
    """

    label: Any
    adversarial: dict[str, Any]
    regularization: Any
    others: dict[str, Any]
    logged: dict[str, tuple]

    @property
    def total(self) -> Any:
        """What a step descends, a scalar."""
        # Terms may differ in precision, which `+` would refuse.
        terms = self.label, *self.adversarial.values(), self.regularization, *self.others.values()
        return functools.reduce(ops.add, terms)


def is_pair(inputs: Any) -> bool:
    """Whether `inputs` hold both domains."""
    return isinstance(inputs, dict) and {"source", "target"} <= set(inputs)


def parts_of(inputs: dict[str, Any]) -> dict[str, Any]:
    """Returns the parts of a pair that are inputs of the backbone, in order."""
    return {name: inputs[name] for name in PARTS if name in inputs}


def labelled_parts(values: dict[str, Any]) -> Any:
    """Returns what belongs to the labels, in their order: the source, then a labelled target."""
    return joined(*(part for name, part in parts_of(values).items() if name != "target"))


def in_one_pass(network: keras.Layer, parts: dict[str, Any], training: bool) -> dict[str, Any]:
    """Runs a network once over all parts and returns its outputs by the same names."""
    together = keras.tree.map_structure(joined, *parts.values())
    outputs = run(network, together, training)
    sizes = [size_of(part) for part in parts.values()]
    return dict(zip(parts, split_rows(outputs, sizes), strict=True))


def size_of(inputs: Any) -> Any:
    """Returns the number of examples of inputs, one tensor or several in any structure."""
    return ops.shape(keras.tree.flatten(inputs)[0])[0]


def at_least_single(value: Any) -> Any:
    """Returns a tensor of half precision in single precision; anything else as it is."""
    if ops.is_tensor(value) and keras.backend.standardize_dtype(value.dtype) in HALF:
        return with_mask_of(value, ops.cast(value, "float32"))
    return value
