"""Examples of a domain that can only be read one after the other."""

import collections
import functools
import itertools
import math
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras

from dann.data.conversion import concatenated
from dann.data.examples import as_batch, columns_of, form_of, is_batch, is_endless

_SHUFFLED = 10_000  # examples of a tf.data.Dataset among which it is shuffled
_PATIENCE = 10  # seconds until one is told that an end has not come
_REMEMBERED = 4  # batches, because Keras looks at the first ones before it starts


class Stream:
    """Examples that come one after the other, cut into batches.

    Batch `i` is there only after the batches before it, so a training cannot start in the middle.
    At the end of a pass the next one begins.

    Args:
        read_pass: Returns an iterator over the columns of pass `k`, in chunks of any length.
        form: Shape and type of one example's inputs; see `form_of`.
        count: Number of examples of a pass, `math.inf` if it has no end, `None` if it is not known.
        domain: What messages call the domain.
    """

    def __init__(
        self,
        read_pass: Callable[[int], Iterator[Any]],
        form: Any,
        count: float | None,
        domain: str,
    ):
        self.read_pass, self.form, self.domain = read_pass, form, domain
        self._count = count
        self._lock = threading.Lock()
        self._rewind()

    @property
    def identity(self) -> None:
        """`None`, because nothing is known about the order of a stream."""
        return None

    @property
    def contents(self) -> None:
        """`None`, because nothing is known about what a stream holds."""
        return None

    @property
    def is_endless(self) -> bool:
        """Whether a pass has no end, or one that nobody knows before it is reached."""
        return self._count == math.inf

    @property
    def count(self) -> float:
        """Number of examples of a pass. If it is not known, this reads them once."""
        if self._count is None:
            told = "if it has none, `pair(..., repeat=True)` does not look for it"
            self._count = sum(map(_length, self._pass_with_an_end(told)))
        return self._count

    def count_up_to(self, most: int) -> float:
        """Returns the number of examples of a pass, or `most` if there are more; reads no more."""
        if self._count is not None:
            return min(self._count, most)
        have = 0
        for columns in self.read_pass(0):
            have += _length(columns)
            if have >= most:
                return most
        return have

    def first(self, most: float = math.inf) -> Any:
        """Returns the columns of the first examples of a pass, and leaves the batches as they are.

        What can be read only once is used up.
        """
        told = "if it has none, cut it, as `itertools.islice` does"
        parts, have = [], 0
        for columns in self._pass_with_an_end(told) if most == math.inf else self.read_pass(0):
            parts.append(columns)
            have += _length(columns)
            if have >= most:
                break
        if not parts:
            raise ValueError(
                f"The {self.domain} holds no more examples. Received: what can be read only once"
            )
        end = None if most == math.inf else int(most)
        return keras.tree.map_structure(lambda leaf: leaf[:end], concatenated(parts, self.domain))

    def _pass_with_an_end(self, told: str) -> Iterator[Any]:
        """A pass that is read to its end; warns if the end does not come for a while."""
        start = time.monotonic()
        for number, columns in enumerate(self.read_pass(0)):
            if start is not None and time.monotonic() - start > _PATIENCE:
                start = None
                warnings.warn(
                    f"The {self.domain} is read to its end; {told}. {number} of its items have "
                    f"come in {_PATIENCE} seconds, and more may follow.",
                    stacklevel=2,
                )
            yield columns

    def anew(self) -> "Stream":
        """Returns a stream of the same examples that begins at the first."""
        return Stream(self.read_pass, self.form, self._count, self.domain)

    def batch(self, number: int, size: int, part: tuple[int, int] = (0, 1)) -> Any:
        """Returns the columns of a batch of `size` examples: the next one, or a recent one.

        A stream cannot be cut up among processes, so `part` must be `(0, 1)`.

        Raises:
            ValueError: If it is any other batch, or there are no more examples.
        """
        with self._lock:
            if number in self._recent:
                return self._recent[number]
            if number == 0:
                self._rewind()
            if number != self._next:
                raise ValueError(
                    f"The {self.domain} can only be read in order, because it is not given as "
                    f"arrays. Received: a request for batch {number} after {self._next} batches"
                )
            found = self._recent[number] = self._read(size)
            if len(self._recent) > _REMEMBERED:
                self._recent.popitem(last=False)
            self._next += 1
            return found

    def _rewind(self):
        self._recent: collections.OrderedDict[int, Any] = collections.OrderedDict()
        self._next = 0
        self._chunks = itertools.chain.from_iterable(self._passes())
        self._left = None

    def _passes(self):
        for number in itertools.count():
            chunks = self.read_pass(number)
            first = next(chunks, None)
            if first is None:
                raise ValueError(
                    f"The {self.domain} cannot be read again; give a function that returns a new "
                    f"iterator. Received: no examples in pass {number + 1}"
                )
            yield itertools.chain([first], chunks)

    def _read(self, size):
        parts = [] if self._left is None else [self._left]
        while sum(map(_length, parts)) < size:
            parts.append(next(self._chunks))
        whole = concatenated(parts, self.domain)
        self._left = keras.tree.map_structure(lambda leaf: leaf[size:], whole)
        return keras.tree.map_structure(lambda leaf: leaf[:size], whole)


def stream_of(
    given: Any,
    domain: str,
    with_labels: bool,
    batch_size: int,
    shuffled_by: int | None,
    rank: int,
    batched: bool | None = None,
) -> Stream | None:
    """Returns the stream of a `tf.data.Dataset`, `PyDataset`, torch `DataLoader` or iterable.

    Args:
        given: Gives examples, or batches of any size. An iterator gives one pass; a function
            without arguments that returns an iterator, and an iterable, give as many as needed.
        domain: What messages call the domain.
        with_labels: Whether it gives `(inputs, labels)`, perhaps with weights. If not, all but the
            inputs is dropped.
        batch_size: Number of examples that a `tf.data.Dataset` is read by.
        shuffled_by: Seed by which a `tf.data.Dataset` of single examples is shuffled within a
            buffer, or `None` for its own order. All others are read in their own order.
        rank: Number of axes of one example's first input if it is known, or -1. It tells batches
            from examples if there are no labels. Otherwise a batch has as many labels as inputs,
            and more than one.
        batched: Whether it gives batches, if that is known. What is certain of the kind of object
            goes first.

    Returns:
        The stream, or `None` if the object is none of these.

    Raises:
        ValueError: If there are no examples, or they are not of the form that is expected.
    """
    reading = _reading_of(given)
    if reading is None:
        return None
    read, count, known = reading
    batched = batched if known is None else known
    first = next(iter(read()), None)
    if first is None:
        raise ValueError(f"The {domain} holds no examples. Received: an empty domain")
    if isinstance(given, Iterator):
        read = _once(first, given)
    columns = columns_of(first, with_labels, domain)
    if batched is None:
        batched = is_batch(columns, rank, domain)
    form = form_of((columns if batched else as_batch(columns))["inputs"])
    in_chunks = _is_tf_data(given) and not batched

    def read_pass(number):
        items = _chunks_of(given, batch_size, shuffled_by, number) if in_chunks else read()
        for item in items:
            found = columns_of(item, with_labels, domain)
            yield found if batched or in_chunks else as_batch(found)

    return Stream(read_pass, form, count if count == math.inf or not batched else None, domain)


def _chunks_of(dataset, size, shuffled_by, number):
    """Pass `number` over a tf.data.Dataset of single examples, in batches."""
    if shuffled_by is not None:
        dataset = dataset.shuffle(_SHUFFLED, seed=shuffled_by + number)
    return dataset.batch(size).as_numpy_iterator()


def _reading_of(given: Any) -> tuple[Callable[[], Any], float | None, bool | None] | None:
    """How to read a pass, its number of items if known, and whether items are batches if known."""
    if _is_tf_data(given):
        size = {-1: math.inf, -2: None}.get(int(given.cardinality()), int(given.cardinality()))
        return given.as_numpy_iterator, size, _spec_is_open(given)
    if isinstance(given, keras.utils.PyDataset):
        count = math.inf if given.num_batches is None else None
        return functools.partial(_items_of, given), count, True
    if type(given).__module__.startswith("torch.") and hasattr(given, "batch_sampler"):
        return given.__iter__, None, given.batch_size is not None
    if isinstance(given, Iterator):
        return given.__iter__, math.inf, None  # there is one pass, of a length that nobody knows
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | dict | tuple | list):
        return given.__iter__, math.inf if is_endless(given) else None, None
    if callable(given):
        return given, None, None
    return None


def _is_tf_data(given):
    tf = sys.modules.get("tensorflow")
    return tf is not None and isinstance(given, tf.data.Dataset)


def _spec_is_open(dataset):
    """Whether the first axis of every part has any length, as in batches; `None` if of some."""
    parts = keras.tree.flatten(dataset.element_spec)
    is_open = [bool(part.shape.rank) and part.shape[0] is None for part in parts]
    return True if all(is_open) and len(parts) > 1 else None


def _items_of(dataset):
    numbers = itertools.count() if dataset.num_batches is None else range(dataset.num_batches)
    return (dataset[number] for number in numbers)


def _once(first, iterator):
    passes = iter([itertools.chain([first], iterator)])
    return lambda: next(passes, iter(()))


def _length(columns):
    return len(keras.tree.flatten(columns)[0])
