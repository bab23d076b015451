"""Pairs of batches, one from each domain."""

from typing import Any

import numpy as np
import tensorflow as tf

from dann.checks import check_integer
from dann.data.domain_inputs import (
    check_alike,
    check_count,
    count_of,
    spec_of,
    with_labels,
    without_labels,
)
from dann.data.sampling import draw_groups_alike, group_numbers

_BUFFER = 10_000


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

    An array may be anything with `shape`, a NumPy `dtype` and `len` that gives rows for an array of
    indices, such as a memory map or `dann.data.ImageFiles`: then each batch reads only its rows.

    An epoch is one pass over the source. A smaller target is recycled; a larger one goes on with
    other examples in the next epoch. The last partial batch is dropped.

    If the size of a `tf.data.Dataset` is unknown, this reads its first examples, at most a batch,
    to refuse one that is empty or too small.

    Args:
        source: Arrays `(inputs, labels)`, or a `tf.data.Dataset` of single examples
            `(input, label)`, neither batched nor repeated.
        target: An array of inputs, or a `tf.data.Dataset` of single inputs. Labels that come with
            it, `(inputs, labels)`, are dropped here.
        batch_size: Examples of *each* domain in a batch. Defaults to `64`.
        target_labelled: Target examples whose labels training may use, given like the source, for
            semi-supervised training. Each batch then also holds `batch_size` of them, recycled.
            Defaults to `None`.
        source_domain: The number of each example's domain, integers `(n,)` from 0, if the source is
            several domains. Batches then draw the domains in equal parts and recycle the smaller
            ones. Needs arrays. Defaults to `None`.
        num_classes: If given, labels of an array outside of `0 <= label < num_classes` are an
            error.
        balanced: Whether batches draw the source's classes in equal parts and recycle the smaller
            ones. Needs arrays. Defaults to `False`.
        shuffle: Whether to shuffle both domains again each epoch. Defaults to `True`. Arrays are
            shuffled whole, a `tf.data.Dataset` within a buffer of 10,000 examples.
        repeat: Whether to go on without end, for `fit(steps_per_epoch=...)`. Defaults to `False`.
        seed: Seed of the order. Defaults to `None`, the global seed.

    Returns:
        A `tf.data.Dataset` of `({"source": inputs, "target": inputs}, source_labels)`. With
        `target_labelled` the inputs have a third entry of that name, and its labels follow the
        source's: `(2 * batch_size,)` in all. With `source_domain` there is an entry of that name,
        int32 `(batch_size,)`.

    Raises:
        ValueError: If a domain is empty, smaller than a batch (the source), already batched, or has
            other shapes or types than the other; if labels are missing, not one for each input, or
            out of range.

    Example:

    >>> import numpy as np
    >>> from dann.data import pair
    >>> source = np.zeros((8, 4)), np.arange(8) % 2
    >>> pairs = pair(source, np.ones((5, 4)), batch_size=4)
    >>> inputs, labels = next(iter(pairs))
    >>> inputs["source"].shape, inputs["target"].shape, labels.shape, len(pairs)
    (TensorShape([4, 4]), TensorShape([4, 4]), TensorShape([4]), 2)
    """
    check_integer("batch_size", batch_size, 1)
    source = with_labels(source, "source", num_classes)
    target = without_labels(target)
    check_alike(spec_of(source)[0], spec_of(target), "target")
    check_count(source, "source", batch_size)
    check_count(target, "target")
    seeds = [None] * 3 if seed is None else [seed, seed + 1, seed + 2]
    labels = None if isinstance(source, tf.data.Dataset) else source[1]
    groups = group_numbers(labels, source_domain, balanced)
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


def _batches(examples, batch_size, shuffle, repeat, seed, groups=None):
    if isinstance(examples, tf.data.Dataset):
        single = _in_order(examples, _BUFFER, shuffle, repeat, seed)
        return single.batch(batch_size, drop_remainder=True)
    count = count_of(examples)
    if groups is None:
        # Indices are shuffled, not inputs: cheap, and over the whole domain.
        single = _in_order(tf.data.Dataset.range(count), count, shuffle, repeat, seed)
    else:
        # A call from tf.data into Python costs more than an index: many at a time.
        draw, signature = draw_groups_alike(groups, shuffle, seed), tf.TensorSpec((None,), tf.int64)
        single = tf.data.Dataset.from_generator(draw, output_signature=signature).unbatch()
        single = single if repeat else single.take(count)
    batches = single.batch(batch_size, drop_remainder=True)
    return batches.map(row_reader(examples), tf.data.AUTOTUNE)


def _in_order(single, buffer, shuffle, repeat, seed):
    single = single.shuffle(buffer, seed=seed) if shuffle else single
    return single.repeat() if repeat else single


def row_reader(examples: Any) -> Any:
    """Returns a function from indices to those rows of an array-like, or a tuple of them."""
    if isinstance(examples, tuple):
        readers = [row_reader(part) for part in examples]
        return lambda chosen: tuple(read(chosen) for read in readers)
    if isinstance(examples, np.ndarray) and not isinstance(examples, np.memmap):
        with tf.device("CPU"):
            tensor = tf.convert_to_tensor(examples)
        return lambda chosen: tf.gather(tensor, chosen)

    def read(chosen):
        batch = tf.numpy_function(lambda indices: examples[indices], [chosen], examples.dtype)
        return tf.ensure_shape(batch, [*chosen.shape, *examples.shape[1:]])

    return read
