"""Batches of a domain that can only be read one after the other."""

import collections
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from dann.data.examples import COLUMNS, Examples, form_of, nested

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
        self._rewind()
        first = next(self._batches)
        self._left = [first]
        self.form = form_of(first["inputs"])
        try:
            # About: the last batch may be smaller.
            self.count = len(given) * _length(first)
        except TypeError:
            self.count = None

    def anew(self) -> "Stream":
        """Returns a stream of the same batches that begins at the first."""
        return Stream(self.given, self.with_labels, self.domain)

    def batch(self, number: int, size: int, part: tuple[int, int] = (0, 1)) -> Any:
        """Returns the columns of a batch of `size` examples: the next one, or a recent one.

        A stream cannot be cut up among processes, so `part` must be `(0, 1)`.

        Raises:
            ValueError: If it is any other batch, or there are no more batches.
        """
        if number in self._recent:
            return self._recent[number]
        if number == 0 and self._next:
            self._rewind()
        if number != self._next:
            raise ValueError(
                f"The {self.domain} can only be read in order, because it is not given as arrays. "
                f"Received: a request for batch {number} after {self._next} batches"
            )
        while sum(map(_length, self._left)) < size:
            self._left.append(next(self._batches))
        whole = concatenated(self._left, self.domain)
        self._left = [keras.tree.map_structure(lambda leaf: leaf[size:], whole)]
        self._recent[number] = keras.tree.map_structure(lambda leaf: leaf[:size], whole)
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        self._next += 1
        return self._recent[number]

    def _rewind(self):
        self._recent: collections.OrderedDict[int, Any] = collections.OrderedDict()
        self._next, self._left = 0, []
        # No method: a cycle of references would end an iterator of TensorFlow at any moment.
        self._batches = _endless(self.given, self.with_labels, self.domain)


def _endless(given, with_labels, domain):
    """The columns of batches, pass after pass."""
    while True:
        is_empty = True
        for batch in given:
            is_empty = False
            yield Examples(columns_of(batch, with_labels, domain), domain).columns  # of one length
        if is_empty:
            raise ValueError(
                f"The {domain} holds no examples, or can be read only once; give what gives an "
                "iterator each time. Received: no batches"
            )


def columns_of(batch: Any, with_labels: bool, domain: str) -> dict[str, Any]:
    """Returns the columns of a batch that a dataset gives, in NumPy.

    Raises:
        ValueError: If there must be labels and the batch is not `(inputs, labels)`, perhaps with
            weights, or if it is a single example.
    """
    parts = batch if isinstance(batch, tuple | list) else (batch,)
    if with_labels and len(parts) not in (2, 3):
        raise ValueError(
            f"The {domain} must give batches `(inputs, labels)`, perhaps with weights; of a "
            "`tf.data.Dataset` of dicts `dataset.map(lambda one: (one['image'], one['label']))` "
            f"does. Received: {type(batch).__name__}"
        )
    named = zip(COLUMNS, parts if with_labels else parts[:1], strict=False)
    try:
        columns = {name: nested(part, domain) for name, part in named}
    except ValueError as error:
        raise ValueError(
            f"The {domain} must give batches of numbers, not single examples; `dataset.batch(64)` "
            f"makes batches, `numpy.stack(list(dataset))` an array. Received: {error}"
        ) from error
    return {name: keras.tree.map_structure(np.asarray, one) for name, one in columns.items()}


def concatenated(parts: Sequence[Any], domain: str) -> Any:
    """Returns one nested structure of arrays with the rows of all parts, one after the other."""

    def join(*leaves: Any):
        if len({leaf.shape[1:] for leaf in leaves}) > 1:
            raise ValueError(
                f"Batches of the {domain} must have rows of one shape; "
                "`keras.utils.pad_sequences(rows)` fills up sequences. "
                f"Received: shapes {sorted({leaf.shape[1:] for leaf in leaves})}"
            )
        return np.concatenate(leaves)

    return keras.tree.map_structure(join, *parts)


def _length(columns):
    return len(keras.tree.flatten(columns)[0])
