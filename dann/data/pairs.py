"""Batches that contain examples of several domains, or of one."""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.checks import check_integer
from dann.data.conversion import convert_strings
from dann.data.examples import Examples
from dann.data.sampling import Sampler
from dann.data.streams import Stream


class Pairs(keras.utils.PyDataset):
    """Batches `({"source": inputs, "target": inputs}, source_labels)` for `fit`; see `pair`.

    With a source alone, batches are `(inputs, labels)`.

    Batch `i` belongs to training step `start + i`. If domains are arrays, the examples of a batch
    depend only on the seed and the step, on every backend. To resume training, set `start` to the
    number of completed steps.

    Iterating over the pairs yields `len(pairs)` batches and advances `start` by this number, so
    that the next iteration continues with new batches; `fit` of this package's models does the
    same. Endless pairs have no length and leave `start` unchanged. Datasets restart.

    Attributes:
        columns: Column names of all data frames in the source's inputs.
        start: Training step of the first batch, at least 0.
    """

    columns: Sequence[str] = ()

    def __init__(
        self,
        domains: dict[str, "IndexedDomain | Stream"],
        batch_size: int,
        num_batches: int | None,
        shard: tuple[int, int] = (0, 1),
        replicas: int = 1,
    ):
        super().__init__()
        self.domains, self.batch_size, self.shard = domains, batch_size, shard
        self._num_batches, self.replicas, self._start = num_batches, replicas, 0
        if shard[1] > 1:
            check_indexed(domains, f"num_processes={shard[1]}")

    @property
    def start(self) -> int:
        return self._start

    @start.setter
    def start(self, step: int) -> None:
        check_integer("start", step, 0)
        if step:
            check_indexed(self.domains, f"start={step}")
        self._start = step

    @property
    def num_batches(self) -> int | None:
        """Number of batches per epoch; `None` for endless pairs."""
        return self._num_batches

    def __len__(self) -> int:
        if self._num_batches is None:
            raise TypeError("Endless pairs have no length; pass `steps_per_epoch` to `fit`.")
        return self._num_batches

    @property
    def is_indexed(self) -> bool:
        """`True` if every domain is read by index, so that batches can be read in any order."""
        return not any(isinstance(domain, Stream) for domain in self.domains.values())

    @property
    def identity(self) -> dict[str, Any]:
        """Sizes, seeds and checksums of some rows, to detect pairs with other batches."""
        orders = {name: domain.identity for name, domain in self.domains.items()}
        return {"batch_size": self.batch_size, **orders}

    def repeat(self, replicas: int = 1) -> "Pairs":
        """Returns an endless sequence of the same batches, beginning at `start`.

        Args:
            replicas: Number of equal shards into which a strategy splits the arrays of a batch. In
                each shard the labels of a labeled target follow the source's labels. Defaults to
                `1`.
        """
        pairs = Pairs(self._restart(), self.batch_size, None, self.shard, replicas)
        pairs._start = self._start
        return pairs

    def check_devices(self, devices: int) -> None:
        """Raises `ValueError` if the batch size is not a multiple of the number of devices."""
        if self.batch_size % devices:
            raise ValueError(
                f"Expected `batch_size` to be a multiple of {devices}, because {devices} devices "
                f"split each batch equally. Received: batch_size={self.batch_size}"
            )

    def take(self, n: int) -> tuple[Any, ...]:
        """Returns the first `n` examples of each domain as one batch; `start` does not change.

        If source or target has fewer than `n` examples, the smaller of the two sets the number.
        """
        domains = [domain for name, domain in self.domains.items() if name != "target_labeled"]
        counts = [domain.count for domain in domains if domain.count]
        return Pairs(self._restart(), min([n, *counts]), None)[0]

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        if self.is_indexed:
            self._start += self._num_batches or 0

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        columns = {
            name: domain.batch(self._start + index, self.batch_size, self.shard)
            for name, domain in self.domains.items()
        }
        labels = [collect_labels(domain) for name, domain in columns.items() if name != "target"]
        inputs = convert_strings(collect_inputs(columns))
        if len(labels) == 1:  # the usual case; concatenation takes a tenth of a batch's time
            return inputs, *labels[0]
        if len(labels[0]) != len(labels[1]):
            raise ValueError(
                "Expected weights of both the source and the labeled target, or of neither. "
                "Received: weights of one of them"
            )

        def interleave(*arrays):
            # Each replica's shard contains labels of the source, then of the labeled target.
            pieces = zip(*(np.array_split(array, self.replicas) for array in arrays), strict=True)
            ordered = [piece for replica_pieces in pieces for piece in replica_pieces]
            # A conversion of floats to integers would lose fractions.
            return np.concatenate(ordered, dtype=arrays[0].dtype, casting="same_kind")

        pairs = zip(*labels, strict=True)  # labels, then weights
        return inputs, *(keras.tree.map_structure(interleave, *pair) for pair in pairs)

    def _restart(self):
        return {
            name: domain.restart() if isinstance(domain, Stream) else domain
            for name, domain in self.domains.items()
        }


def check_indexed(domains: dict[str, Any], argument: str) -> None:
    """Raises `ValueError` if a domain is a dataset, which cannot be read by index.

    Args:
        domains: Domains by name.
        argument: The argument that requires reading by index, such as `"start=3"`.
    """
    for name, domain in domains.items():
        if isinstance(domain, Stream):
            raise ValueError(
                "Expected domains that are read by index, such as arrays, because of "
                f"`{argument}`. Received: a dataset, which is read in order, as the {name}"
            )


def collect_inputs(columns: dict[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a batch from the columns of its domains.

    The inputs are a dict by domain, or the source's inputs if there is no target.
    """
    if "target" not in columns:
        return columns["source"]["inputs"]
    inputs = {name: domain["inputs"] for name, domain in columns.items()}
    source = columns["source"]
    return {**inputs, "source_domain": source["domain"]} if "domain" in source else inputs


def collect_labels(columns: dict[str, Any]) -> list[Any]:
    """Returns the labels of a domain, followed by the weights if there are any."""
    return [columns[name] for name in ("labels", "weights") if name in columns]


class IndexedDomain(NamedTuple):
    """Examples that are read by index, and the order in which they are drawn."""

    examples: Examples
    order: Sampler

    @property
    def count(self) -> int:
        """Number of examples."""
        return self.examples.count

    @property
    def inputs(self) -> Any:
        """Inputs of all examples."""
        return self.examples.columns["inputs"]

    @property
    def identity(self) -> list[int]:
        """Numbers that change if the order or the examples change.

        They are the numbers of examples and groups, 1 if shuffled, the seed, the number of the
        domain, and a checksum of 16 rows in memory.
        """
        order = self.order
        settings = [self.count, len(order.members), int(order.shuffle), *order.key]
        rows = np.linspace(0, self.count - 1, 16).astype(int)
        arrays = keras.tree.flatten(self.examples.columns)
        values = [array[rows].tolist() for array in arrays if isinstance(array, np.ndarray)]
        return [*settings, zlib.crc32(repr(values).encode())]

    def batch(self, number: int, size: int, shard: tuple[int, int] = (0, 1)) -> Any:
        """Returns the columns of one batch.

        Args:
            number: Number of the batch, at least 0.
            size: Number of examples per batch.
            shard: `(i, n)` for shard `i` of `n` of the batch. Defaults to the whole batch.
        """
        # Every process draws the row numbers of the whole batch, and then reads its own shard.
        positions = np.arange(number * size, (number + 1) * size)
        rows = np.array_split(self.order.examples(positions), shard[1])[shard[0]]
        return self.examples.rows(rows)
