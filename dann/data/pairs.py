"""Batches that hold examples of several domains."""

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.checks import check_integer
from dann.data.examples import Examples, strings_as_tensors, without_lists
from dann.data.sampling import Sampler
from dann.data.streams import Stream


class Pairs(keras.utils.PyDataset):
    """Batches `({"source": inputs, "target": inputs}, source_labels)` for `fit`; see `pair`.

    Batch `i` is the one of training step `start + i`. Of domains given as arrays, which examples it
    holds depends on the seed and the step alone, on every backend; so a training that resumes sets
    `start` to the number of steps before.

    A loop over the pairs, like an epoch of `fit`, goes through `len(pairs)` batches and moves
    `start` on by as many, so that the next one sees others. Endless pairs have no length and leave
    `start` as it is.

    Attributes:
        start: Step of the first batch, at least 0.
    """

    def __init__(
        self,
        domains: dict[str, "IndexedDomain | Stream"],
        batch_size: int,
        num_batches: int | None,
        process_id: int = 0,
        num_processes: int = 1,
    ):
        super().__init__()
        self.domains, self.batch_size = domains, batch_size
        self.part = process_id, num_processes
        self._replicas, self._as_one = 1, False
        self._num_batches = num_batches
        self._start = 0
        self._in_epoch = self._read_last = False
        if num_processes > 1:
            self._need_index("num_processes", num_processes)

    @property
    def start(self) -> int:
        return self._start

    @start.setter
    def start(self, step: int) -> None:
        check_integer("start", step, 0)
        if step:
            self._need_index("start", step)
        self._start = step

    @property
    def num_batches(self) -> int | None:
        """Number of batches of an epoch, or `None` if it has no end."""
        return self._num_batches

    def __len__(self) -> int:
        if self._num_batches is None:
            raise TypeError("Endless pairs have no length; give `steps_per_epoch` to `fit`.")
        return self._num_batches

    @property
    def by_index(self) -> bool:
        """Whether every domain is read by index, so that any batch is there at once."""
        return not any(isinstance(domain, Stream) for domain in self.domains.values())

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the batches: sizes, seeds and a checksum of some rows, plain values."""
        orders = {name: domain.identity for name, domain in self.domains.items()}
        return {"batch_size": self.batch_size, **orders}

    def endless(self) -> "Pairs":
        """Returns the same batches from `start` on, without end."""
        pairs = Pairs(self.domains, self.batch_size, None, *self.part)
        pairs._start, pairs._as_one = self._start, self._as_one
        return pairs

    def check_devices(self, devices: int) -> None:
        """Raises `ValueError` if the batch size is not a multiple of the number of devices."""
        if self.batch_size % devices:
            raise ValueError(
                f"The devices split a batch into {devices} equal parts, so its size must be a "
                f"multiple of {devices}. Received: batch_size={self.batch_size}"
            )

    def take(self, n: int) -> tuple[Any, ...]:
        """Returns the first `n` examples of each domain as one batch; `start` stays as it is.

        The smaller of source and target sets the number if it has fewer examples.
        """
        domains = {name: domain.anew() for name, domain in self.domains.items()}
        counts = [domains[name].count for name in ("source", "target")]
        return Pairs(domains, min([n, *filter(None, counts)]), None)[0]

    @contextlib.contextmanager
    def split_over(self, devices: int, replicas: int = 1) -> Iterator[None]:
        """Prepares batches that several devices share; `fit` and `evaluate` do so.

        Of several processes, each then gets its part of all labels one after the other, the
        source's and a labelled target's, as JAX puts the parts together.

        Args:
            devices: Number of devices, each of which gets an equal part.
            replicas: Into how many parts the arrays of a batch are cut, the labels like all others.
                The labels of a labelled target then follow those of the source within each part.
                Defaults to `1`: they follow all of the source's.

        Raises:
            ValueError: If the batch size is not a multiple of `devices`.
        """
        self.check_devices(devices)
        before = self._replicas, self._as_one
        self._replicas, self._as_one = replicas, devices > 1 and self.part[1] > 1
        try:
            yield
        finally:
            self._replicas, self._as_one = before

    def __iter__(self) -> Iterator[Any]:
        self.on_epoch_begin()
        yield from super().__iter__()
        self.on_epoch_end()

    def on_epoch_begin(self) -> None:
        self._in_epoch, self._read_last = True, False

    def on_epoch_end(self) -> None:
        if self._in_epoch and self._read_last:  # Keras also calls this before the first epoch
            self._start += self._num_batches or 0
        self._in_epoch = False

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        step = self._start + index
        self._read_last = self._read_last or index + 1 == self._num_batches
        columns = {
            name: domain.batch(step, self.batch_size, self.part)
            for name, domain in self.domains.items()
        }
        inputs = {
            name: without_lists(strings_as_tensors(part["inputs"]))
            for name, part in columns.items()
        }
        source = columns["source"]
        if "domain" in source:
            inputs["source_domain"] = source["domain"]
        if "target_labelled" not in columns:
            return inputs, *_labels_of([source], 1)
        labelled = [source, columns["target_labelled"]]
        if not self._as_one:
            return inputs, *_labels_of(labelled, self._replicas)
        # This process's part of the labels, which follow each other as on one process.
        names = "source", "target_labelled"
        whole = [self.domains[name].batch(step, self.batch_size) for name in names]
        size = sum(len(part["labels"]) for part in labelled)
        mine = slice(size * self.part[0], size * (self.part[0] + 1))
        return inputs, *(column[mine] for column in _labels_of(whole, self._replicas))

    def _need_index(self, name, value):
        for domain, examples in self.domains.items():
            if isinstance(examples, Stream):
                raise ValueError(
                    f"Argument `{name}` needs domains that are read by index, such as arrays; the "
                    f"{domain} is a dataset that is read in order. Received: {name}={value}"
                )


def _labels_of(labelled, replicas):
    """The labels of labelled domains, one after the other for each replica, and perhaps weights."""
    columns = [[part["labels"] for part in labelled]]
    given = [part["weights"] for part in labelled if "weights" in part]
    if given:
        ones = [np.ones((len(part["labels"]), *given[0].shape[1:])) for part in labelled]
        pairs = zip(labelled, ones, strict=True)
        columns.append([part.get("weights", one).astype(np.float32) for part, one in pairs])
    return [_interleaved(parts, replicas) for parts in columns]


def _interleaved(parts, replicas):
    pieces = zip(*(np.array_split(part, replicas) for part in parts), strict=True)
    in_order = [piece for of_replica in pieces for piece in of_replica]
    # Numbers of another kind would lose their fractions.
    return np.concatenate(in_order, dtype=parts[0].dtype, casting="same_kind")


class IndexedDomain(NamedTuple):
    """Examples that are read by index, in the order in which they are drawn."""

    examples: Examples
    order: Sampler

    @property
    def count(self) -> int:
        """Number of examples."""
        return self.examples.count

    @property
    def identity(self) -> list[int]:
        """Numbers that tell another order or other examples.

        They are the number of examples and of groups, whether they are shuffled, seed and domain,
        and a checksum of 16 rows in memory.
        """
        order = self.order
        drawn = [self.count, len(order.members), int(order.shuffle), *order.key]
        rows = np.linspace(0, self.count - 1, 16).astype(int)
        leaves = keras.tree.flatten(self.examples.columns)
        shown = [leaf[rows].tolist() for leaf in leaves if isinstance(leaf, np.ndarray)]
        return [*drawn, zlib.crc32(repr(shown).encode())]

    def anew(self) -> "IndexedDomain":
        """Returns itself, because reading changes nothing."""
        return self

    def batch(self, number: int, size: int, part: tuple[int, int] = (0, 1)) -> Any:
        """Returns the columns of a batch of `size` examples, or part `i` of `n` of them."""
        positions = np.arange(number * size, (number + 1) * size)
        mine = np.array_split(self.order.examples(positions), part[1])[part[0]]
        return self.examples.rows(mine)
