"""Batches of a domain that can only be read one after the other."""

import itertools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from dann.data.examples import Examples, split_columns

_REMEMBERED = 4  # batches, because Keras looks at the first ones before it starts


class Stream:
    """A dataset of batches, cut again to batches of one size, pass after pass.

    Batch `i` is there only after the batches before it, so a training cannot start in the middle.

    Args:
        given: An iterable of batches of any size, such as a `tf.data.Dataset`, a torch
            `DataLoader`, a `keras.utils.PyDataset` or a generator, which gives one pass.
        with_labels: Whether batches are `(inputs, labels)`, perhaps with weights. If not, all but
            the inputs is dropped.
        domain: What messages call the domain.

    Raises:
        ValueError: If there is no batch, or it is not of that form.
    """

    identity = None  # nothing is known about the order of a stream

    def __init__(self, given: Any, with_labels: bool, domain: str):
        self.given, self.with_labels, self.domain = given, with_labels, domain
        self._begin()
        first = next(self._batches)
        self.input_spec, self._left = first.input_spec, first.columns
        try:
            self.count = len(given) * first.count  # about: the last batch may be smaller
        except TypeError:
            self.count = None
        if isinstance(given, Iterator):  # it gives one pass, of which another stream misses nothing
            self.given = itertools.chain([tuple(first.columns.values())], given)

    def anew(self) -> "Stream":
        """Returns a stream of the same batches that begins at the first."""
        return Stream(self.given, self.with_labels, self.domain)

    def batch(self, number: int, size: int, part: tuple[int, int] = (0, 1)) -> Any:
        """Returns the columns of a batch of `size` examples: the next one, or a recent one.

        A stream cannot be cut up among processes, so `part` must be `(0, 1)`.

        Raises:
            ValueError: If it is any other batch, or there are no more batches.
        """
        if number not in self._recent:
            if number == 0 and self._next:
                self._begin()
            if number != self._next:
                raise ValueError(
                    f"The {self.domain} can only be read in order, because it is not given as "
                    f"arrays. Received: a request for batch {number} after {self._next} batches"
                )
            self._recent[number] = self._cut(size)
            self._recent.pop(number - _REMEMBERED, None)
            self._next += 1
        return self._recent[number]

    def _begin(self):
        self._recent: dict[int, Any] = {}
        self._next, self._left = 0, None
        # No method: a cycle of references would end an iterator of TensorFlow at any moment.
        self._batches = _endless(self.given, self.with_labels, self.domain)

    def _cut(self, size):
        left = self._left
        while left is None or len(keras.tree.flatten(left)[0]) < size:
            parts = [part for part in (left, next(self._batches).columns) if part]
            left = keras.tree.map_structure(lambda *leaves: np.concatenate(leaves), *parts)
        self._left = keras.tree.map_structure(lambda leaf: leaf[size:], left)
        return keras.tree.map_structure(lambda leaf: leaf[:size], left)


def _endless(given, with_labels, domain):
    """The examples of each batch, pass after pass."""
    while True:
        examples = None
        for batch in given:
            parts = tuple(batch) if isinstance(batch, list) else batch
            examples = Examples(split_columns(parts, with_labels, domain), domain)
            yield examples
        if examples is None:
            raise ValueError(
                f"The {domain} holds no examples, or can be read only once; give what gives an "
                "iterator each time. Received: no batches"
            )
