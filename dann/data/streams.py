"""Batches of a domain that can only be read in order."""

import itertools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from dann.data.examples import Examples, split_columns

_CACHED = 4  # batches, because Keras reads the first ones before training starts


class Stream:
    """A dataset with batches of any size, regrouped into endless batches of one size.

    Batch `i` can only be read after all earlier batches, so training cannot start in the middle.

    Args:
        batches: Iterable of batches, such as a `tf.data.Dataset`, a torch `DataLoader`, a
            `keras.utils.PyDataset`, or a generator, which provides a single pass.
        with_labels: Whether batches are `(inputs, labels)`, optionally with weights. If `False`,
            only the inputs are used.
        domain: Name of the domain in error messages.

    Raises:
        ValueError: If there are no batches, or batches do not have this form.
    """

    identity = None  # the order of a stream is unknown

    def __init__(self, batches: Any, with_labels: bool, domain: str):
        self.batches, self.with_labels, self.domain = batches, with_labels, domain
        self._begin()
        first = next(self._examples)
        self.input_spec, self._remainder = first.input_spec, first.columns
        self.column_names = first.column_names
        self.inputs = first.columns["inputs"]  # of the first batch
        try:
            self.count = len(batches) * first.count  # approximate: the last batch may be smaller
        except TypeError:
            self.count = None
        if isinstance(batches, Iterator):  # a copy of this stream must not miss the first batch
            self.batches = itertools.chain([tuple(first.columns.values())], batches)

    def restart(self) -> "Stream":
        """Returns a stream of the same batches that begins with the first batch."""
        return Stream(self.batches, self.with_labels, self.domain)

    def batch(self, number: int, size: int, shard: tuple[int, int] = (0, 1)) -> Any:
        """Returns the columns of the next batch, or of one of the last four batches.

        Args:
            number: Number of the batch, at least 0.
            size: Number of examples per batch.
            shard: Must be `(0, 1)`, because processes cannot share a stream.

        Raises:
            ValueError: If another batch is requested, or no batches remain.
        """
        if number not in self._recent:
            if number == 0 and self._next:
                self._begin()
            if number != self._next:
                raise ValueError(
                    f"The {self.domain} is a dataset and can only be read in order; pass arrays to "
                    f"read any batch. Received: batch {number} after {self._next} batches"
                )
            columns = self._remainder
            while columns is None or len(keras.tree.flatten(columns)[0]) < size:
                batches = [batch for batch in (columns, next(self._examples).columns) if batch]
                columns = keras.tree.map_structure(lambda *leaves: np.concatenate(leaves), *batches)
            self._recent[number] = keras.tree.map_structure(lambda leaf: leaf[:size], columns)
            self._remainder = keras.tree.map_structure(lambda leaf: leaf[size:], columns)
            self._recent.pop(number - _CACHED, None)
            self._next += 1
        return self._recent[number]

    def _begin(self):
        self._recent: dict[int, Any] = {}
        self._next, self._remainder = 0, None
        # Not a method: a reference cycle would delay the end of TensorFlow's iterator.
        self._examples = _read_endlessly(self.batches, self.with_labels, self.domain)


def _read_endlessly(batches, with_labels, domain):
    """Yields the examples of each batch, pass after pass."""
    is_py_dataset = isinstance(batches, keras.utils.PyDataset)
    while True:
        examples = None
        if is_py_dataset:
            batches.on_epoch_begin()
        for batch in batches:
            parts = tuple(batch) if isinstance(batch, list) else batch
            examples = Examples(split_columns(parts, with_labels, domain), domain)
            yield examples
        if is_py_dataset:
            batches.on_epoch_end()  # often shuffles
        if examples is None:
            raise ValueError(
                f"Expected the {domain} to be an iterable that starts again each time. Received: "
                "no batches, either because it is empty or because it can be read only once"
            )
