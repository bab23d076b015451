"""Batches that hold examples of several domains, or of one."""

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.checks import check_integer
from dann.data.examples import Examples, convert_strings
from dann.data.sampling import Sampler
from dann.data.streams import Stream


class Pairs(keras.utils.PyDataset):
    """Batches `({"source": inputs, "target": inputs}, source_labels)` for `fit`; see `pair`.

    Of a source alone the batches are `(inputs, labels)`.

    Batch `i` is the one of training step `start + i`. Of domains given as arrays, which examples it
    holds depends on the seed and the step alone, on every backend; so a training that resumes sets
    `start` to the number of steps before.

    A loop over the pairs goes through `len(pairs)` batches and moves `start` on by as many, so that
    the next one sees others; so does `fit` of this package's models. Endless pairs have no length
    and leave `start` as it is. Domains that are datasets begin anew.

    Attributes:
        start: Step of the first batch, at least 0.
    """

    def __init__(
        self,
        domains: dict[str, "IndexedDomain | Stream"],
        batch_size: int,
        num_batches: int | None,
        part: tuple[int, int] = (0, 1),
        replicas: int = 1,
    ):
        super().__init__()
        self.domains, self.batch_size, self.part = domains, batch_size, part
        self._num_batches, self.replicas, self._start = num_batches, replicas, 0
        if part[1] > 1:
            check_indexed(domains, "num_processes", part[1])

    @property
    def start(self) -> int:
        return self._start

    @start.setter
    def start(self, step: int) -> None:
        check_integer("start", step, 0)
        if step:
            check_indexed(self.domains, "start", step)
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

    def endless(self, replicas: int = 1) -> "Pairs":
        """Returns the same batches from `start` on, without end.

        Args:
            replicas: Into how many equal parts a strategy cuts the arrays of a batch. The labels of
                a labelled target then follow those of the source within each part. Defaults to
                `1`: they follow all of the source's.
        """
        pairs = Pairs(self._anew(), self.batch_size, None, self.part, replicas)
        pairs._start = self._start
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
        counts = [its.count for name, its in self.domains.items() if name != "target_labelled"]
        return Pairs(self._anew(), min([n, *filter(None, counts)]), None)[0]

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        if self.by_index:
            self._start += self._num_batches or 0

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        columns = {
            name: domain.batch(self._start + index, self.batch_size, self.part)
            for name, domain in self.domains.items()
        }
        labels = [collect_labels(part) for name, part in columns.items() if name != "target"]
        inputs = convert_strings(collect_inputs(columns))
        if len(labels) == 1:  # as mostly; joining takes a tenth of a batch's time
            return inputs, *labels[0]
        return inputs, *(
            keras.tree.map_structure(lambda *one: _joined(one, self.replicas), *parts)
            for parts in zip(*labels, strict=True)
        )

    def _anew(self):
        return {
            name: domain.anew() if isinstance(domain, Stream) else domain
            for name, domain in self.domains.items()
        }


def check_indexed(domains: dict[str, Any], name: str, value: Any) -> None:
    """Raises a `ValueError` if an argument needs domains that are read by index, and one is not."""
    for domain, examples in domains.items():
        if isinstance(examples, Stream):
            raise ValueError(
                f"Argument `{name}` needs domains that are read by index, such as arrays; the "
                f"{domain} is a dataset that is read in order. Received: {name}={value}"
            )


def collect_inputs(columns: dict[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a batch by domain, or of one alone, from the columns of each."""
    if "target" not in columns:
        return columns["source"]["inputs"]
    inputs = {name: part["inputs"] for name, part in columns.items()}
    source = columns["source"]
    return {**inputs, "source_domain": source["domain"]} if "domain" in source else inputs


def collect_labels(columns: dict[str, Any]) -> list[Any]:
    """Returns the labels of a domain, and the weights if it has some."""
    return [columns[name] for name in ("labels", "weights") if name in columns]


def _joined(parts, replicas):
    """The labels of the source and of a labelled target, one after the other in each replica."""
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

    def batch(self, number: int, size: int, part: tuple[int, int] = (0, 1)) -> Any:
        """Returns the columns of a batch of `size` examples, or part `i` of `n` of them."""
        positions = np.arange(number * size, (number + 1) * size)
        mine = np.array_split(self.order.examples(positions), part[1])[part[0]]
        return self.examples.rows(mine)
