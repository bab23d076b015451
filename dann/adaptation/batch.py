"""What goes into a step, what a method sees of it, and the loss of a domain discriminator."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from dann.checks import check_number

HALF = ("float16", "bfloat16")
PARTS = ("source", "target", "target_labelled")  # in the order of a joint pass
DOMAIN_TERMS = ("domain/loss", "domain/accuracy")


class Batch(NamedTuple):
    """What a model gives for a pair of domains.

    Attributes:
        inputs: The pair, as the network saw it: augmented in training.
        features: Features `(batch, num_features)`, or maps of them `(batch, ..., num_features)`, by
            part of the pair: `"source"`, `"target"` and `"target_labelled"` where there is one.
        logits: Logits of the classes `(batch, num_classes)`, or maps of them, by the same names;
            those of the target only where the method or a regularizer needs them.
        weights: Weights of the labelled examples, or `None`.
    """

    inputs: dict[str, Any]
    features: dict[str, Any]
    logits: dict[str, Any]
    weights: Any = None

    @property
    def domain_features(self) -> Any:
        """Features of the source and then of the target, as one tensor."""
        return ops.concatenate([self.features["source"], self.features["target"]])

    @property
    def label_logits(self) -> Any:
        """Logits that belong to the labels, in their order."""
        return labelled_parts(self.logits)

    def split_domains(self, scores: Any) -> list[Any]:
        """Returns the rows of the source and those of the target, of what was made from `domain_features`."""
        return split_rows(scores, [size_of(self.features[name]) for name in ("source", "target")])

    def probabilities(self) -> Any:
        """Returns the softmax of the logits of `domain_features`, without gradient."""
        logits = ops.concatenate([self.logits["source"], self.logits["target"]])
        return ops.stop_gradient(ops.softmax(logits))

    def behind_reversal(self, network: Any, reversal: Any, training: bool) -> Any:
        """Returns what a network says of `domain_features`, behind the reversal."""
        features = reversal(self.domain_features, training=training)
        return at_least_single(network(features, training=training))

    def domain_terms(self, scores: Any, smoothing: float, weights: Any = None) -> dict[str, Any]:
        """Returns the loss and the accuracy of a discriminator, the `DOMAIN_TERMS`, scalars.

        With the domain label `d`, 0 for source and 1 for target, and weights `w`:

        - loss: mean of `w * BCE(score, d * (1 - 2 smoothing) + smoothing)` over all scores
        - accuracy: mean of `[score > 0] == d`

        Args:
            scores: Logits, those of the source and then those of the target: `(2 batch, k)`, of
                maps `(2 batch, ..., k)`.
            smoothing: What the labels give to the wrong domain.
            weights: Tensor `(2 batch,)`. Defaults to `None`: 1.
        """
        source, target = self.split_domains(scores)
        domain = ops.concatenate([ops.zeros_like(source), ops.ones_like(target)])
        smoothed = domain * (1 - 2 * smoothing) + smoothing
        # Joined anew, because Keras looks behind a sigmoid that it finds for the logits.
        joined = ops.concatenate([source, target])
        losses = keras.losses.binary_crossentropy(smoothed, joined, from_logits=True)
        right = ops.equal(joined > 0, domain > 0.5)
        return {
            "domain/loss": ops.mean(losses if weights is None else weights * losses),
            "domain/accuracy": ops.mean(ops.cast(right, "float32")),
        }


def check_smoothing(value: Any) -> float:
    """Returns `domain_label_smoothing` if it is from 0 to .5."""
    return check_number("domain_label_smoothing", value, low=0, high=0.5)


def is_pair(inputs: Any) -> bool:
    """Whether `inputs` hold both domains."""
    return isinstance(inputs, dict) and {"source", "target"} <= set(inputs)


def select_parts(inputs: Any) -> dict[str, Any]:
    """Returns the parts of a pair that are inputs of the backbone, in order."""
    return {name: inputs[name] for name in PARTS if name in inputs}


def labelled_parts(values: dict[str, Any]) -> Any:
    """Returns what belongs to the labels, in their order: the source, then a labelled target."""
    parts = [part for name, part in select_parts(values).items() if name != "target"]
    return parts[0] if len(parts) == 1 else ops.concatenate(parts)


def in_one_pass(network: keras.Layer, parts: dict[str, Any], training: bool) -> dict[str, Any]:
    """Runs a network once over all parts and returns its outputs by the same names."""
    if len(parts) == 1:
        return {name: network(part, training=training) for name, part in parts.items()}
    shapes = [_shapes_of(part) for part in parts.values()]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(
            "One pass takes parts of one shape; for domains of different lengths give the method "
            f"`joint_forward=False`. Received: shapes {dict(zip(parts, shapes, strict=True))}"
        )
    together = keras.tree.map_structure(lambda *one: ops.concatenate(one), *parts.values())
    outputs = network(together, training=training)
    sizes = [size_of(part) for part in parts.values()]
    return dict(zip(parts, split_rows(outputs, sizes), strict=True))


def in_own_passes(
    network: keras.Layer, parts: dict[str, Any], training: bool, add_loss: Callable[[Any], None]
) -> dict[str, Any]:
    """Runs a network once over each part and returns its outputs, of one shape, by their names.

    What its layers add to the loss counts by the part's share of the examples, so that means over
    each pass together are that over a joint one: `add_loss` gets the difference.
    """
    outputs, size = {}, sum(map(size_of, parts.values()))
    for name, part in parts.items():
        before = sum_losses(network.losses)
        outputs[name] = network(part, training=training)
        if network.losses:
            more = sum_losses(network.losses) - before
            add_loss(more * ops.cast(size_of(part) / size - 1, more.dtype))
    if len({tuple(one.shape[1:]) for one in outputs.values()}) > 1:
        raise ValueError(
            "The backbone must pool maps of domains of different sizes. Received: features "
            f"{ {name: tuple(one.shape) for name, one in outputs.items()} }"
        )
    return outputs


def _shapes_of(inputs):
    return [tuple(one.shape[1:]) for one in keras.tree.flatten(inputs)]


def size_of(inputs: Any) -> Any:
    """Returns the number of examples of inputs, one tensor or several in any structure."""
    return ops.shape(keras.tree.flatten(inputs)[0])[0]


def split_rows(tensor: Any, sizes: Sequence[Any]) -> list[Any]:
    """Returns consecutive parts of so many examples each.

    Parts of one known size are one operation, whose gradient writes each number once; that of
    slices writes the whole tensor for each of them.
    """
    if all(isinstance(size, int) and size == sizes[0] for size in sizes):
        parts: Any = ops.split(tensor, len(sizes))
        return list(parts)
    ends = list(itertools.accumulate(sizes))
    return [tensor[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def is_movable(tensor: Any) -> bool:
    """Whether a tensor holds numbers that a layer may change: floats, or bytes as of images."""
    kind = keras.backend.standardize_dtype(tensor.dtype)
    return keras.backend.is_float_dtype(kind) or kind in ("uint8", "int8")


def predicted(logits: Any) -> Any:
    """Returns the class of the highest logit, one-hot."""
    return ops.one_hot(ops.argmax(logits, axis=-1), logits.shape[-1], dtype=logits.dtype)


def at_least_single(tensor: Any) -> Any:
    """Returns a tensor of half precision in single precision, for which losses are made."""
    in_half = keras.backend.standardize_dtype(tensor.dtype) in HALF
    return ops.cast(tensor, "float32") if in_half else tensor


def weights_of_positions(weights: Any, logits: Any) -> Any:
    """Returns a weight for each prediction, from one for each or one for each example.

    Args:
        weights: Tensor `(batch,)`, `(batch, ...)` or `(batch, ..., 1)`; `None` stays.
        logits: Tensor `(batch, ..., k)`; of several by name, so are the weights.

    Returns:
        Tensor `(batch, ...)`.
    """
    if weights is None:
        return None
    if isinstance(logits, dict):
        return {name: weights_of_positions(weights[name], one) for name, one in logits.items()}
    weights = ops.convert_to_tensor(weights)  # JAX has no float64
    ones = ops.ones_like(logits[..., 0], dtype=weights.dtype)
    # In two axes, because Keras may not know how many axes weights have.
    size = ops.shape(logits)[0]
    of_examples = ops.reshape(weights, (size, -1)) * ops.reshape(ones, (size, -1))
    return ops.reshape(of_examples, ops.shape(ones))


def sum_losses(losses: Iterable[Any], start: Any = 0.0) -> Any:
    """Returns `start` with all losses added, each of any shape and type."""
    for loss in losses:
        start = ops.add(start, ops.sum(loss))  # `+` takes no half precision beside single
    return start
