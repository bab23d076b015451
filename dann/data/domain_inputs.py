"""What `pair` takes for a domain, arrays or a `tf.data.Dataset`, and its checks."""

from typing import Any

import numpy as np
import tensorflow as tf


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


def with_labels(examples: Any, domain: str, num_classes: int | None = None) -> Any:
    """Returns `(inputs, labels)` as arrays, or the `tf.data.Dataset` of single `(input, label)`.

    Labels of an array must be below `num_classes`, if it is given.
    """
    if isinstance(examples, tf.data.Dataset):
        spec = examples.element_spec
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise ValueError(
                f"The {domain} must give `(input, label)`. Received: a dataset of {spec}"
            )
        # The input alone may be an image of unknown height.
        if all(_is_open(part) for part in spec):
            raise ValueError(
                f"The {domain} must give single examples, because `pair` makes the batches; use "
                f"`.unbatch()`. Received: a dataset of batches, {spec}"
            )
        return examples
    if not isinstance(examples, tuple | list) or len(examples) != 2:
        raise ValueError(
            f"The {domain} must be `(inputs, labels)`, because training learns its labels. "
            f"Received: {type(examples).__name__}"
        )
    inputs, labels = _array(examples[0], domain), np.asarray(examples[1])
    if labels.ndim == 0 or len(inputs) != len(labels):
        raise ValueError(
            f"The {domain} must have one label for each input. "
            f"Received: {len(inputs)} inputs and {labels.size} labels"
        )
    if num_classes is not None:
        check_labels(labels, num_classes, domain)
    return inputs, labels


def without_labels(target: Any) -> Any:
    """Returns the target's inputs, as an array or a `tf.data.Dataset`, and drops its labels."""
    if isinstance(target, tf.data.Dataset):
        if isinstance(target.element_spec, tuple):
            return target.map(lambda inputs, *labels: inputs)
        return target
    if isinstance(target, tuple | list):
        # A list of two rows of numbers would pass for inputs and labels.
        paired = len(target) == 2 and (isinstance(target, tuple) or hasattr(target[0], "shape"))
        if not paired:
            raise ValueError(
                "The target must be an array of inputs, or `(inputs, labels)`; make an array of "
                f"rows with `numpy.asarray`. Received: a {type(target).__name__} of {len(target)}"
            )
        target = target[0]
    return _array(target, "target")


def spec_of(examples: Any) -> Any:
    """Returns the shape and type of one example."""
    if isinstance(examples, tf.data.Dataset):
        return examples.element_spec
    if isinstance(examples, tuple):
        return tuple(spec_of(part) for part in examples)
    return tf.TensorSpec(examples.shape[1:], examples.dtype)


def check_alike(source: Any, other: Any, domain: str) -> None:
    """Raises a `ValueError` unless one network can take the inputs of both specs."""
    for name, spec in (("source", source), (domain, other)):
        if not hasattr(spec, "shape"):
            raise ValueError(f"An input of the {name} must be one tensor. Received: {spec}")
    if not source.shape.is_compatible_with(other.shape) or source.dtype != other.dtype:
        raise ValueError(
            "Inputs of both domains must have one shape and type. Received: source "
            f"{source.shape} of {source.dtype.name}, {domain} {other.shape} of {other.dtype.name}"
        )


def check_count(examples: Any, domain: str, least: int = 1) -> None:
    """Raises a `ValueError` if there are fewer than `least` examples.

    Reads up to `least` examples of a `tf.data.Dataset` whose size is unknown.
    """
    size = count_of(examples)
    if size == tf.data.UNKNOWN_CARDINALITY:
        size = sum(1 for _ in examples.take(least))
    if size == 0:
        raise ValueError(f"The {domain} holds no examples. Received: an empty domain")
    if 0 < size < least:
        raise ValueError(
            f"The {domain} must fill a batch of {least}; use a smaller `batch_size`. "
            f"Received: {size} examples"
        )


def count_of(examples: Any) -> int:
    """Returns the number of examples; below 0 if it is unknown or infinite."""
    if isinstance(examples, tf.data.Dataset):
        return int(examples.cardinality())
    return len(examples[0] if isinstance(examples, tuple) else examples)


def _is_open(spec):
    """Whether the length of the first axis is unknown, as in a batch."""
    return isinstance(spec, tf.TensorSpec) and bool(spec.shape.rank) and spec.shape[0] is None


def _array(values, domain):
    if isinstance(getattr(values, "dtype", None), np.dtype) and hasattr(values, "shape"):
        array = values  # perhaps not in memory, so not converted
    else:
        array = np.asarray(values)
    if len(array.shape) == 0:
        raise ValueError(f"The {domain} must be given as arrays. Received: {type(values).__name__}")
    return array
