"""The batch that a method receives, and the loss of a domain discriminator."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from dann.checks import check_number

HALF_TYPES = ("float16", "bfloat16")
PARTS = ("source", "target", "target_labeled")  # in the order of a joint forward pass
DOMAIN_TERMS = ("domain/loss", "domain/accuracy")


class Batch(NamedTuple):
    """Inputs, features, logits and labels of one training step.

    The first three fields are dicts with the keys `"source"`, `"target"` and, if there are labeled
    target examples, `"target_labeled"`. If a model trains on a single domain, the target contains
    the same tensors as the source.

    Attributes:
        inputs: Inputs of the network, augmented in training.
        features: Features `(batch, num_features)` or feature maps `(batch, ..., num_features)`.
        logits: Class logits `(batch, num_classes)` or maps of logits. The logits of the target are
            missing unless the method or a regularizer needs them.
        raw_inputs: Inputs before augmentation.
        labels: Labels of the source, followed by the labels of the labeled target.
        weights: Sample weights of the labeled examples, or `None`.
    """

    inputs: dict[str, Any]
    features: dict[str, Any]
    logits: dict[str, Any]
    raw_inputs: Any = None
    labels: Any = None
    weights: Any = None

    @property
    def domain_features(self) -> Any:
        """Features of the source followed by the features of the target, as one tensor."""
        return ops.concatenate([self.features["source"], self.features["target"]])

    @property
    def label_logits(self) -> Any:
        """Logits of the labeled examples, in the order of the labels."""
        return join_labeled_parts(self.logits)

    def split_domains(self, scores: Any) -> list[Any]:
        """Splits rows computed from `domain_features` into source rows and target rows."""
        sizes = [count_examples(self.features[name]) for name in ("source", "target")]
        return split_rows(scores, sizes)

    def apply_reversed(self, network: Any, reversal: Any, training: bool) -> Any:
        """Applies a network to the domain features after the gradient reversal."""
        features = reversal(self.domain_features, training=training)
        return upcast_half(network(features, training=training))

    def domain_terms(self, scores: Any, smoothing: float, weights: Any = None) -> dict[str, Any]:
        """Returns the loss and the accuracy of a discriminator, scalars by `DOMAIN_TERMS`.

        With the domain label `d`, 0 for source and 1 for target, and weights `w`:

        - loss: mean of `w * BCE(score, d * (1 - 2 smoothing) + smoothing)` over all scores
        - accuracy: mean of `[score > 0] == d`

        Args:
            scores: Logits of the source followed by logits of the target: `(2 batch, k)`, for
                maps `(2 batch, ..., k)`.
            smoothing: Probability that the labels assign to the wrong domain, from 0 to 0.5.
            weights: Tensor `(2 batch,)`. Defaults to `None`: every weight is 1.
        """
        source, target = self.split_domains(scores)
        domain = ops.concatenate([ops.zeros_like(source), ops.ones_like(target)])
        smoothed = domain * (1 - 2 * smoothing) + smoothing
        # A new tensor, because Keras replaces the output of a sigmoid by the input of the sigmoid.
        joined = ops.concatenate([source, target])
        losses = keras.losses.binary_crossentropy(smoothed, joined, from_logits=True)
        is_correct = ops.equal(joined > 0, domain > 0.5)
        return {
            "domain/loss": ops.mean(losses if weights is None else weights * losses),
            "domain/accuracy": ops.mean(ops.cast(is_correct, "float32")),
        }


def check_smoothing(value: Any) -> float:
    """Returns `domain_label_smoothing` as a float; raises a `ValueError` outside of 0 to 0.5."""
    return check_number("domain_label_smoothing", value, low=0, high=0.5)


def is_pair(inputs: Any) -> bool:
    """Returns whether inputs contain both domains."""
    return isinstance(inputs, dict) and {"source", "target"} <= set(inputs)


def select_parts(inputs: Any) -> dict[str, Any]:
    """Returns the parts of a pair that are inputs of the backbone, in the order of `PARTS`."""
    return {name: inputs[name] for name in PARTS if name in inputs}


def join_labeled_parts(values: dict[str, Any]) -> Any:
    """Concatenates the parts that have labels: the source, then the labeled target."""
    parts = [part for name, part in select_parts(values).items() if name != "target"]
    return parts[0] if len(parts) == 1 else ops.concatenate(parts)


def run_jointly(network: keras.Layer, parts: dict[str, Any], training: bool) -> dict[str, Any]:
    """Runs a network once on all parts together, and returns the outputs by part."""
    if len(parts) == 1:
        return {name: network(part, training=training) for name, part in parts.items()}
    tensors = [keras.tree.flatten(part) for part in parts.values()]
    shapes = [[tuple(tensor.shape[1:]) for tensor in part] for part in tensors]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(
            "Expected examples of one shape, because the backbone runs once on all domains. "
            f"Received: shapes {dict(zip(parts, shapes, strict=True))}. For domains of different "
            "lengths, pass `joint_forward=False` to the method."
        )
    joined = keras.tree.map_structure(lambda *leaves: ops.concatenate(leaves), *parts.values())
    outputs = network(joined, training=training)
    sizes = [count_examples(part) for part in parts.values()]
    return dict(zip(parts, split_rows(outputs, sizes), strict=True))


def run_separately(
    network: keras.Layer, parts: dict[str, Any], training: bool, add_loss: Callable[[Any], None]
) -> dict[str, Any]:
    """Runs a network once per part, and returns the outputs by part.

    Losses that layers add are means over one part. Their mean, weighted by the number of examples
    of each part, equals the loss of a joint pass. `add_loss` receives the difference between the
    weighted loss and the loss that Keras has already added.

    Raises:
        ValueError: If features differ in shape, or if a backbone with batch normalization trains on
            several parts.
    """
    if training and len(parts) > 1:
        _reject_batch_normalization(network)
    outputs = {}
    total_size = sum(map(count_examples, parts.values()))
    for name, part in parts.items():
        previous_loss = sum_losses(network.losses)
        outputs[name] = network(part, training=training)
        if network.losses:
            part_loss = sum_losses(network.losses) - previous_loss
            share = count_examples(part) / total_size
            add_loss(part_loss * ops.cast(share - 1, part_loss.dtype))
    shapes = {name: tuple(output.shape) for name, output in outputs.items()}
    if len({shape[1:] for shape in shapes.values()}) > 1:
        raise ValueError(
            "Expected features of one shape. Received: features of shapes "
            f"{shapes}. End the backbone with a pooling layer."
        )
    return outputs


def _reject_batch_normalization(network):
    """Raises a `ValueError` if a network trains with the statistics of its batches.

    Training would normalize each domain by its own statistics, but inference by one moving average
    of both, so the accuracy could be at chance.
    """
    names = [
        layer.name
        for layer in network._flatten_layers()  # Keras has no public name for this list
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
    ]
    if names:
        raise ValueError(
            "Expected a backbone without batch normalization for `joint_forward=False`, because "
            "each domain would train with its own statistics, which inference does not use. "
            f"Received: {len(names)} such layers, {names[0]!r} first. Use `joint_forward=True`, or "
            "`keras.layers.GroupNormalization`, or set `trainable = False` on these layers."
        )


def count_examples(inputs: Any) -> Any:
    """Returns the number of examples in inputs, a tensor or any structure of tensors."""
    return ops.shape(keras.tree.flatten(inputs)[0])[0]


def split_rows(tensor: Any, sizes: Sequence[Any]) -> list[Any]:
    """Splits a tensor along its first axis into consecutive parts of the given sizes.

    Equal static sizes need a single operation, whose gradient writes each number once. The gradient
    of a slice writes the whole tensor, so slices are slower.
    """
    if all(isinstance(size, int) and size == sizes[0] for size in sizes):
        parts: Any = ops.split(tensor, len(sizes))
        return list(parts)
    stops = list(itertools.accumulate(sizes))
    return [tensor[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


def is_continuous(tensor: Any) -> bool:
    """Returns whether a tensor contains floats or bytes, such as pixels, but no indices."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return keras.backend.is_float_dtype(dtype) or dtype in ("uint8", "int8")


def predict_one_hot(logits: Any) -> Any:
    """Returns the class of the highest logit as a one-hot vector."""
    return ops.one_hot(ops.argmax(logits, axis=-1), logits.shape[-1], dtype=logits.dtype)


def upcast_half(tensor: Any) -> Any:
    """Casts a tensor of half precision to float32, the precision of the losses."""
    is_half = keras.backend.standardize_dtype(tensor.dtype) in HALF_TYPES
    return ops.cast(tensor, "float32") if is_half else tensor


def expand_sample_weights(weights: Any, logits: Any) -> Any:
    """Returns one weight per prediction, from one weight per prediction or per example.

    Args:
        weights: Tensor `(batch,)`, `(batch, ...)` or `(batch, ..., 1)`, or `None`, which is
            returned. A dict if the logits are a dict.
        logits: Tensor `(batch, ..., k)`, or a dict of such tensors.

    Returns:
        Tensor `(batch, ...)`, or a dict of such tensors.
    """
    if weights is None:
        return None
    if isinstance(logits, dict):
        return {
            name: expand_sample_weights(weights[name], output) for name, output in logits.items()
        }
    weights = ops.convert_to_tensor(weights)  # JAX has no float64
    unit_weights = ops.ones_like(logits[..., 0], dtype=weights.dtype)
    # Two axes, because Keras may not know the rank of the weights.
    size = ops.shape(logits)[0]
    expanded = ops.reshape(weights, (size, -1)) * ops.reshape(unit_weights, (size, -1))
    return ops.reshape(expanded, ops.shape(unit_weights))


def sum_losses(losses: Iterable[Any], start: Any = 0.0) -> Any:
    """Returns `start` plus the sum of all losses, which may differ in shape and type."""
    for loss in losses:
        start = ops.add(start, ops.sum(loss))  # `+` rejects half plus single precision
    return start
