"""Pairs of batches, one from each domain."""

import itertools
import numbers
from typing import Any

import numpy as np
import tensorflow as tf

from dann.data.examples import (
    check_alike,
    check_count,
    count_of,
    spec_of,
    with_labels,
    without_labels,
)

_BUFFER = 10_000
_ROUNDS = 100  # of all groups that are drawn at once


def pair(
    source: Any,
    target: Any,
    batch_size: int = 64,
    *,
    target_labelled: Any = None,
    source_domain: Any = None,
    num_classes: int | None = None,
    balanced: bool = False,
    shuffle: bool = True,
    repeat: bool = False,
    seed: int | None = None,
) -> tf.data.Dataset:
    """Pairs a labelled source with an unlabelled target, in batches of equal size.

    Arrays may be anything with `shape`, a NumPy `dtype` and `len` that gives arrays for arrays of
    indices, such as a memory map or `dann.data.ImageFiles`: then only what a batch needs is read.

    An epoch is one pass over the source. The target is recycled where it is smaller, and goes on
    with other examples in the next epoch where it is larger. The last partial batch is dropped.

    Of a `tf.data.Dataset` of unknown size the first examples, at most a batch of them, are read
    here, to tell one that is empty or too small.

    Args:
        source: Arrays `(inputs, labels)`, or a `tf.data.Dataset` of single examples
            `(input, label)`, neither batched nor repeated.
        target: An array of inputs, or a `tf.data.Dataset` of single inputs. Labels that come with
            it, `(inputs, labels)`, are dropped here.
        batch_size: Examples of *each* domain in a batch. Defaults to `64`.
        target_labelled: Those target examples whose labels may be learnt from, given like the
            source, for semi-supervised training. Each batch then holds `batch_size` of them too,
            recycled. Defaults to `None`.
        source_domain: Where the source is several domains, the number of each example's, integers
            `(n,)` from 0. Batches then draw the domains in equal parts, the smaller ones recycled.
            Needs arrays. Defaults to `None`.
        num_classes: If given, labels of an array outside of `0 <= label < num_classes` are an
            error.
        balanced: Whether the source's classes are drawn in equal parts, the smaller ones recycled.
            Needs arrays. Defaults to `False`.
        shuffle: Whether to shuffle both domains anew each epoch. Defaults to `True`. Arrays are
            shuffled whole, a `tf.data.Dataset` within a buffer of 10,000 examples.
        repeat: Whether to go on without end, for `fit(steps_per_epoch=...)`. Defaults to `False`.
        seed: Seed of the order. Defaults to `None`, the global seed.

    Returns:
        A `tf.data.Dataset` of `({"source": inputs, "target": inputs}, source_labels)`. With
        `target_labelled` the inputs have a third entry of that name, and its labels follow the
        source's: `(2 * batch_size,)` in all. With `source_domain` there is an entry of that name,
        int32 `(batch_size,)`.

    Raises:
        TypeError: If `batch_size` is no integer.
        ValueError: If a domain is empty, smaller than a batch (the source), already batched, or has
            other shapes or types than the other; if labels are missing, not one per input, or out
            of range.

    Example:

    >>> import numpy as np
    >>> from dann.data import pair
    >>> source = np.zeros((8, 4)), np.arange(8) % 2
    >>> pairs = pair(source, np.ones((5, 4)), batch_size=4)
    >>> inputs, labels = next(iter(pairs))
    >>> inputs["source"].shape, inputs["target"].shape, labels.shape, len(pairs)
    (TensorShape([4, 4]), TensorShape([4, 4]), TensorShape([4]), 2)
    """
    _check_batch_size(batch_size)
    source = with_labels(source, "source", num_classes)
    target = without_labels(target)
    check_alike(spec_of(source)[0], spec_of(target), "target")
    check_count(source, "source", batch_size)
    check_count(target, "target")
    seeds = [None] * 3 if seed is None else [seed, seed + 1, seed + 2]
    groups = _groups(source, source_domain, balanced)
    if source_domain is not None:
        source = (*source, np.asarray(source_domain, "int32"))
    parts = [
        _batches(source, batch_size, shuffle, repeat, seeds[0], groups),
        _batches(target, batch_size, shuffle, True, seeds[1]),
    ]
    if target_labelled is not None:
        extra = with_labels(target_labelled, "labelled target", num_classes)
        check_alike(spec_of(source)[0], spec_of(extra)[0], "labelled target")
        check_count(extra, "labelled target")
        parts.append(_batches(extra, batch_size, shuffle, True, seeds[2]))
    return tf.data.Dataset.zip(*parts).map(_as_pair).prefetch(tf.data.AUTOTUNE)


def _as_pair(source, target, *labelled):
    inputs = {"source": source[0], "target": target}
    if len(source) == 3:
        inputs["source_domain"] = source[2]
    if not labelled:
        return inputs, source[1]
    extra, extra_labels = labelled[0]
    labels = tf.concat([source[1], tf.cast(extra_labels, source[1].dtype)], axis=0)
    return {**inputs, "target_labelled": extra}, labels


def _check_batch_size(batch_size):
    if not isinstance(batch_size, numbers.Integral) or isinstance(batch_size, bool):
        raise TypeError(
            f"Argument `batch_size` must be an integer. Received: batch_size={batch_size!r}"
        )
    if batch_size < 1:
        raise ValueError(f"Argument `batch_size` must be at least 1. Received: {batch_size}")


def _groups(source, source_domain, balanced):
    """The number of the group that each source example is in, where groups are drawn alike."""
    if source_domain is None and not balanced:
        return None
    if isinstance(source, tf.data.Dataset):
        raise ValueError(
            "`balanced=True` and `source_domain` need the source as arrays, to know its labels "
            "beforehand. Received: a tf.data.Dataset"
        )
    if source_domain is None:
        return source[1]
    domains = np.asarray(source_domain)
    if domains.shape != source[1].shape or not np.issubdtype(domains.dtype, np.integer):
        raise ValueError(
            "Argument `source_domain` must have one integer for each source example. Received: "
            f"{domains.dtype} of shape {domains.shape} for {len(source[1])} examples"
        )
    if not balanced:
        return domains
    return np.unique(np.stack([domains, source[1]]), axis=1, return_inverse=True)[1].reshape(-1)


def _batches(examples, batch_size, shuffle, repeat, seed, groups=None):
    count = count_of(examples)
    in_memory = not isinstance(examples, tf.data.Dataset)
    # Indices are shuffled, not inputs: cheap, and over the whole domain.
    single = tf.data.Dataset.range(count) if in_memory else examples
    if groups is not None:
        single = _balanced(groups, shuffle, seed)
        single = single if repeat else single.take(count)
    else:
        single = single.shuffle(count if in_memory else _BUFFER, seed=seed) if shuffle else single
        single = single.repeat() if repeat else single
    batches = single.batch(batch_size, drop_remainder=True)
    return batches.map(gather(examples), tf.data.AUTOTUNE) if in_memory else batches


def _balanced(groups, shuffle, seed):
    """Indices without end, the groups in turn."""
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    rng = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
    order = rng.permutation if shuffle else np.asarray

    def draw():
        streams = [itertools.chain.from_iterable(map(order, itertools.repeat(m))) for m in members]
        while True:
            turns = [order(np.arange(len(members))) for _ in range(_ROUNDS)]
            yield [next(streams[turn]) for turn in np.concatenate(turns)]

    # A call from tf.data into Python costs more than an index: many at a time.
    signature = tf.TensorSpec((None,), tf.int64)
    return tf.data.Dataset.from_generator(draw, output_signature=signature).unbatch()


def gather(examples: Any) -> Any:
    """Returns the function from a batch of indices to those examples, for `tf.data`.

    Args:
        examples: An array, something that is indexed like one, or a tuple of these.
    """
    if isinstance(examples, tuple):
        functions = [gather(part) for part in examples]
        return lambda chosen: tuple(function(chosen) for function in functions)
    if isinstance(examples, np.ndarray) and not isinstance(examples, np.memmap):
        with tf.device("CPU"):
            tensor = tf.convert_to_tensor(examples)
        return lambda chosen: tf.gather(tensor, chosen)

    def read(chosen):
        batch = tf.numpy_function(lambda indices: examples[indices], [chosen], examples.dtype)
        return tf.ensure_shape(batch, [*chosen.shape, *examples.shape[1:]])

    return read
