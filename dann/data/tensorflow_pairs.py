"""Pairs as a `tf.data.Dataset`, which needs no Python call per batch."""

import atexit
import gc
from typing import Any

import keras
import numpy as np

from dann.data.pairs import IndexedDomain, Pairs, collect_inputs, collect_labels

_MAX_BYTES = 2**28  # of all arrays, which are copied into TensorFlow
_STEPS = 64  # whose examples are drawn in one call
_PREFETCH = 2  # batches

# An iterator that is freed while Python exits would wait forever for its thread to call Python.
atexit.register(gc.collect)


def as_tensorflow_dataset(pairs: Pairs) -> Any:
    """Returns the batches of pairs from `start` on, without end, as a `tf.data.Dataset`.

    The batches are the same as from `pairs`. Python draws the row numbers of 64 steps at once, and
    TensorFlow gathers the rows from its own copies of the arrays.

    Returns:
        The dataset; `None` unless the backend is TensorFlow and both domains are arrays of numbers
        of at most 256 MiB in total, without a labeled target.
    """
    domains: Any = pairs.domains
    if keras.backend.backend() != "tensorflow" or pairs.shard[1] > 1:
        return None
    if not {*domains} <= {"source", "target"} or not _fit_in_memory(domains.values()):
        return None
    import tensorflow as tf

    size, start = pairs.batch_size, pairs.start
    with tf.device("CPU:0"):
        columns = {
            name: keras.tree.map_structure(tf.constant, dict(domain.examples.columns))
            for name, domain in domains.items()
        }

    def draw_rows(block):
        first = (start + int(block) * _STEPS) * size
        positions = np.arange(first, first + _STEPS * size)
        rows = [domain.order.examples(positions) for domain in domains.values()]
        return [numbers.reshape(_STEPS, size) for numbers in rows]

    def read_block(block):
        rows = tf.numpy_function(draw_rows, [block], [tf.int64] * len(domains))
        for numbers in rows:
            numbers.set_shape((_STEPS, size))
        return tf.data.Dataset.from_tensor_slices(tuple(rows))

    def gather_batch(*rows):
        batch: Any = {
            name: keras.tree.map_structure(
                lambda values, numbers=numbers: tf.gather(values, numbers), columns[name]
            )
            for name, numbers in zip(domains, rows, strict=True)
        }
        return collect_inputs(batch), *collect_labels(batch["source"])

    blocks = tf.data.Dataset.counter()
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1  # the training step needs the other threads
    options.threading.max_intra_op_parallelism = 1
    return blocks.flat_map(read_block).map(gather_batch).prefetch(_PREFETCH).with_options(options)


def _fit_in_memory(domains):
    if not all(isinstance(domain, IndexedDomain) for domain in domains):
        return False
    arrays = keras.tree.flatten([domain.examples.columns for domain in domains])
    return all(map(_is_numeric, arrays)) and sum(array.nbytes for array in arrays) <= _MAX_BYTES


def _is_numeric(array):
    """Returns whether TensorFlow can copy an array without checks.

    The result is `False` for memory maps of floats, which are checked for NaN when they are read.
    """
    if not isinstance(array, np.ndarray):
        return False
    kinds = "biu" if isinstance(array, np.memmap) else "biuf"
    return array.dtype.kind in kinds and array.dtype.itemsize <= 8 and array.dtype.isnative
