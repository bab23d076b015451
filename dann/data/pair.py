"""Pairs of batches, one from each domain."""

from typing import Any

import numpy as np
import tensorflow as tf

_BUFFER = 10_000


def pair(
    source: Any,
    target: Any,
    batch_size: int = 64,
    *,
    num_classes: int | None = None,
    shuffle: bool = True,
    repeat: bool = False,
    seed: int | None = None,
) -> tf.data.Dataset:
    """Pairs a labelled source with an unlabelled target, in batches of equal size.

    An epoch is one pass over the source. The target is recycled where it is smaller, and goes on
    with other examples in the next epoch where it is larger. The last partial batch is dropped.

    Args:
        source: Arrays `(inputs, labels)`, or a `tf.data.Dataset` of single examples
            `(input, label)`, neither batched nor repeated.
        target: An array of inputs, or a `tf.data.Dataset` of single inputs. Labels that come with
            it, `(inputs, labels)`, are dropped here.
        batch_size: Examples of *each* domain in a batch. Defaults to `64`.
        num_classes: If given, labels of an array outside of `0 <= label < num_classes` are an
            error.
        shuffle: Whether to shuffle both domains anew each epoch. Defaults to `True`. Arrays are
            shuffled whole, a `tf.data.Dataset` within a buffer of 10,000 examples.
        repeat: Whether to go on without end, for `fit(steps_per_epoch=...)`. Defaults to `False`.
        seed: Seed of the order. Defaults to `None`, the global seed.

    Returns:
        A `tf.data.Dataset` of `({"source": inputs, "target": inputs}, source_labels)`.

    Raises:
        ValueError: If a domain is empty, smaller than a batch (the source), or has other shapes or
            types than the other; if labels are missing, not one per input, or out of range.

    Example:

    >>> import numpy as np
    >>> from dann.data import pair
    >>> source = np.zeros((8, 4)), np.arange(8) % 2
    >>> pairs = pair(source, np.ones((5, 4)), batch_size=4)
    >>> inputs, labels = next(iter(pairs))
    >>> inputs["source"].shape, inputs["target"].shape, labels.shape, len(pairs)
    (TensorShape([4, 4]), TensorShape([4, 4]), TensorShape([4]), 2)
    """
    if batch_size < 1:
        raise ValueError(f"Argument `batch_size` must be at least 1. Received: {batch_size}")
    source = _labelled(source, num_classes)
    target = _without_labels(target)
    _check_alike(_spec(source)[0], _spec(target))
    size = _count(source)
    if size is not None and 0 < size < batch_size:
        raise ValueError(
            f"The source must fill a batch of {batch_size}; use a smaller `batch_size`. "
            f"Received: {size} examples"
        )
    target_seed = None if seed is None else seed + 1
    sources = _batches(source, "source", batch_size, shuffle, repeat, seed)
    targets = _batches(target, "target", batch_size, shuffle, True, target_seed)

    def as_pair(labelled, target_inputs):
        inputs, labels = labelled
        return {"source": inputs, "target": target_inputs}, labels

    return tf.data.Dataset.zip(sources, targets).map(as_pair).prefetch(tf.data.AUTOTUNE)


def check_labels(labels: np.ndarray, num_classes: int, domain: str) -> None:
    """Raises a `ValueError` unless all labels are integers in `0 <= label < num_classes`."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"Labels of the {domain} must be integers. Received: labels of type {labels.dtype}"
        )
    wrong = labels[(labels < 0) | (labels >= num_classes)]
    if wrong.size:
        raise ValueError(
            f"Labels of the {domain} must be at least 0 and below num_classes={num_classes}. "
            f"Received: {np.unique(wrong).tolist()}"
        )


def _labelled(source, num_classes) -> Any:
    if isinstance(source, tf.data.Dataset):
        if not isinstance(source.element_spec, tuple) or len(source.element_spec) != 2:
            raise ValueError(
                "The source must give `(input, label)`. Received: a dataset of "
                f"{source.element_spec}"
            )
        return source
    if not isinstance(source, tuple | list) or len(source) != 2:
        raise ValueError(
            "The source must be `(inputs, labels)`: labels are what it is for. "
            f"Received: {type(source).__name__}"
        )
    inputs, labels = (_array(part, "source") for part in source)
    if len(inputs) != len(labels):
        raise ValueError(
            "The source must have one label for each input. "
            f"Received: {len(inputs)} inputs and {len(labels)} labels"
        )
    if num_classes is not None:
        check_labels(labels, num_classes, "source")
    return inputs, labels


def _without_labels(target) -> Any:
    if isinstance(target, tf.data.Dataset):
        if isinstance(target.element_spec, tuple):
            return target.map(lambda inputs, *labels: inputs)
        return target
    return _array(target[0] if isinstance(target, tuple | list) else target, "target")


def _array(values, domain):
    array = np.asarray(values)
    if array.ndim == 0:
        raise ValueError(f"The {domain} must be given as arrays. Received: {type(values).__name__}")
    return array


def _spec(examples) -> Any:
    """Shape and type of one example."""
    if isinstance(examples, tf.data.Dataset):
        return examples.element_spec
    return tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape[1:], part.dtype), examples)


def _check_alike(source, target):
    for domain, spec in (("source", source), ("target", target)):
        if not hasattr(spec, "shape"):
            raise ValueError(f"An input of the {domain} must be one tensor. Received: {spec}")
    if not source.shape.is_compatible_with(target.shape) or source.dtype != target.dtype:
        raise ValueError(
            "Inputs of both domains must have one shape and type. Received: source "
            f"{source.shape} of {source.dtype.name}, target {target.shape} of {target.dtype.name}"
        )


def _count(examples):
    if isinstance(examples, tf.data.Dataset):
        size = int(examples.cardinality())
        return None if size < 0 else size
    return len(tf.nest.flatten(examples)[0])


def _batches(examples, domain, batch_size, shuffle, repeat, seed):
    if _count(examples) == 0:
        raise ValueError(f"The {domain} holds no examples. Received: an empty domain")
    if isinstance(examples, tf.data.Dataset):
        return _ordered(examples, _BUFFER, batch_size, shuffle, repeat, seed)
    # Indices are shuffled, not images: cheap, and over the whole domain.
    count = len(tf.nest.flatten(examples)[0])
    indices = tf.data.Dataset.range(count)
    with tf.device("CPU"):
        tensors = tf.nest.map_structure(tf.convert_to_tensor, examples)

    def gather(chosen):
        return tf.nest.map_structure(lambda part: tf.gather(part, chosen), tensors)

    return _ordered(indices, count, batch_size, shuffle, repeat, seed).map(gather)


def _ordered(single, buffer, batch_size, shuffle, repeat, seed):
    single = single.shuffle(buffer, seed=seed) if shuffle else single
    single = single.repeat() if repeat else single
    return single.batch(batch_size, drop_remainder=True)
