"""The batches of pairs without a call of Python for each, where TensorFlow trains."""

import atexit
import gc
from typing import Any

import keras
import numpy as np

from dann.data.pairs import IndexedDomain, Pairs, collect_inputs, collect_labels

_LARGEST = 2**28  # bytes of all arrays, which are held a second time
_STEPS = 64  # whose examples are chosen at once
_AHEAD = 2  # batches that are read ahead

# Freed as Python ends, an iterator waits for ever for its thread, which asks Python for examples.
atexit.register(gc.collect)


def as_tensorflow_dataset(pairs: Pairs) -> Any:
    """Returns the batches of pairs from `start` on, without end, as a `tf.data.Dataset`.

    Its batches are those of `pairs`. Python chooses the examples of 64 steps at once; TensorFlow
    gathers them from arrays of its own.

    Returns:
        The dataset; `None` unless the backend is TensorFlow and both domains are arrays of numbers
        of at most 256 MiB together, without a labelled target.
    """
    domains: Any = pairs.domains
    if keras.backend.backend() != "tensorflow" or pairs.part[1] > 1:
        return None
    if not {*domains} <= {"source", "target"} or not _in_memory(domains.values()):
        return None
    import tensorflow as tf

    size, start = pairs.batch_size, pairs.start
    with tf.device("CPU:0"):
        columns = {
            name: keras.tree.map_structure(tf.constant, dict(domain.examples.columns))
            for name, domain in domains.items()
        }

    def choose(block):
        first = (start + int(block) * _STEPS) * size
        positions = np.arange(first, first + _STEPS * size)
        drawn = [domain.order.examples(positions) for domain in domains.values()]
        return [rows.reshape(_STEPS, size) for rows in drawn]

    def chosen(block):
        rows = tf.numpy_function(choose, [block], [tf.int64] * len(domains))
        for its in rows:
            its.set_shape((_STEPS, size))
        return tf.data.Dataset.from_tensor_slices(tuple(rows))

    def batch(*rows):
        parts: Any = {
            name: keras.tree.map_structure(
                lambda leaf, its=its: tf.gather(leaf, its), columns[name]
            )
            for name, its in zip(domains, rows, strict=True)
        }
        return collect_inputs(parts), *collect_labels(parts["source"])

    blocks = tf.data.Dataset.counter()
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1  # the step needs the others
    options.threading.max_intra_op_parallelism = 1
    return blocks.flat_map(chosen).map(batch).prefetch(_AHEAD).with_options(options)


def _in_memory(domains):
    """Whether all domains are small arrays of numbers."""
    if not all(isinstance(domain, IndexedDomain) for domain in domains):
        return False
    leaves = keras.tree.flatten([domain.examples.columns for domain in domains])
    return all(map(_is_known, leaves)) and sum(leaf.nbytes for leaf in leaves) <= _LARGEST


def _is_known(leaf):
    """Whether it is an array of numbers; floats of a memory map are checked as they are read."""
    if not isinstance(leaf, np.ndarray):
        return False
    kinds = "biu" if isinstance(leaf, np.memmap) else "biuf"
    return leaf.dtype.kind in kinds and leaf.dtype.itemsize <= 8 and leaf.dtype.isnative
