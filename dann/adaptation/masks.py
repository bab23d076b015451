"""Tensors of several domains, put together and taken apart with the masks that Keras keeps of them.

A layer such as `Embedding(mask_zero=True)` attaches a mask `(batch, ...)` to its output. Keras's
layers, losses and metrics heed it; operations of `keras.ops` drop it.
"""

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops
from keras.src.backend import get_keras_mask, set_keras_mask  # Keras has no public name for them


def mask_of(tensor: Any) -> Any:
    """Returns the mask of a tensor, true where it counts, or `None`."""
    return get_keras_mask(tensor)


def with_mask_of(original: Any, tensor: Any) -> Any:
    """Gives a tensor the mask of the one that it was made from, and returns it."""
    mask = get_keras_mask(original)
    if mask is not None:
        set_keras_mask(tensor, mask)
    return tensor


def run(network: Callable[..., Any], tensor: Any, training: bool | None) -> Any:
    """Runs a network on a tensor or a structure of them, without a wrong warning.

    Keras says of every model that it destroys a mask, though the model's layers pass it on.
    """
    if not isinstance(network, keras.Model) or get_keras_mask(tensor) is None:
        return network(tensor, training=training)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* was passed an input with a mask", UserWarning)
        return network(tensor, training=training)


def joined(*tensors: Any) -> Any:
    """Returns tensors along the first axis as one, masked if they are."""
    whole = ops.concatenate(tensors)
    masks = [get_keras_mask(tensor) for tensor in tensors]
    if all(mask is not None for mask in masks):
        set_keras_mask(whole, ops.concatenate(masks))
    return whole


def split_rows(tensor: Any, sizes: Sequence[Any]) -> list[Any]:
    """Returns consecutive parts of so many examples each, masked if the tensor is.

    Parts of one known size are one operation, whose gradient writes each number once; that of
    slices writes the whole tensor for each of them.
    """
    mask = get_keras_mask(tensor)
    parts, masks = (_split(whole, sizes) for whole in (tensor, mask))
    for part, its_mask in zip(parts, masks, strict=True):
        if its_mask is not None:
            set_keras_mask(part, its_mask)
    return parts


def _split(whole: Any, sizes: Sequence[Any]) -> Any:
    if whole is None:
        return [None] * len(sizes)
    if all(isinstance(size, int) and size == sizes[0] for size in sizes):
        return ops.split(whole, len(sizes))
    ends = list(itertools.accumulate(sizes))
    return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def mean(values: Any, weights: Any = None, axis: Any = None) -> Any:
    """Returns the mean of values in which each has the weight of its place, or a mask's true."""
    if weights is None:
        return ops.mean(values, axis=axis)
    weights = ops.cast(weights, values.dtype)
    return ops.sum(weights * values, axis=axis) / ops.maximum(ops.sum(weights, axis=axis), 1.0)


def of_positions(weights: Any, logits: Any) -> Any:
    """Returns a weight for each prediction, from one for each or one for each example.

    Args:
        weights: Tensor `(batch,)`, `(batch, ...)` or `(batch, ..., 1)`.
        logits: Tensor `(batch, ..., k)`.

    Returns:
        Tensor `(batch, ...)`.
    """
    weights = ops.convert_to_tensor(weights)  # JAX has no float64
    dtype = keras.backend.standardize_dtype(weights.dtype)
    ones, size = ops.ones_like(logits[..., 0], dtype=dtype), ops.shape(logits)[0]
    # In two axes, because Keras may not know how many axes weights have.
    of_examples = ops.reshape(weights, (size, -1)) * ops.reshape(ones, (size, -1))
    return ops.reshape(of_examples, ops.shape(ones))
