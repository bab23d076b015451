"""Examples of a domain that are read by index."""

import functools
import sys
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from dann.data.conversion import as_array, concatenated, in_memory
from dann.data.labels import NUMBER_THEM

COLUMNS = "inputs", "labels", "weights"


class Examples:
    """Columns of array-likes of one length, whose rows are read on demand.

    Args:
        columns: `"inputs"` and perhaps `"labels"`, `"weights"`, `"domain"`. Each is an array-like
            or a nested structure of them.
        domain: What messages call the domain.

    Raises:
        ValueError: If a column is not made of arrays, or if lengths differ.
    """

    def __init__(self, columns: Mapping[str, Any], domain: str):
        self.columns: Any = keras.tree.map_structure(lambda one: as_array(one, domain), columns)
        lengths = {
            len(leaf): name
            for name, column in self.columns.items()
            for leaf in keras.tree.flatten(column)
        }
        if len(lengths) != 1:
            found = " and ".join(f"{count} {name}" for count, name in lengths.items())
            raise ValueError(
                f"The {domain} must have one label for each input, and all arrays one length"
                f"{_hint(columns['inputs'])}. Received: {found or 'no arrays'}"
            )
        self.count = next(iter(lengths))

    def rows(self, indices: np.ndarray) -> Any:
        """Returns these rows of every column."""
        return keras.tree.map_structure(lambda leaf: leaf[indices], self.columns)

    @property
    def form(self) -> Any:
        """Shape and type of one example's inputs; see `form_of`."""
        return form_of(self.columns["inputs"])


class Items:
    """Examples of a dataset that gives one at a time by index, such as torch's map-style ones.

    Args:
        dataset: Has `len`, and `dataset[i]` gives `(input, label)` or an input.
        with_labels: Whether items are `(input, label)`. If not, labels are dropped.
        domain: What messages call the domain.
    """

    def __init__(self, dataset: Any, with_labels: bool, domain: str):
        self.dataset, self.with_labels, self.domain = dataset, with_labels, domain
        self.count = len(dataset)

    def rows(self, indices: np.ndarray) -> Any:
        """Returns the columns of these examples."""
        items = [columns_of(self.dataset[int(i)], self.with_labels, self.domain) for i in indices]
        return concatenated([as_batch(item) for item in items], self.domain)

    def are_batches(self, rank: int, told: bool | None = None) -> bool:
        """Whether these are batches, as told; else of grain's by `is_batch`, others give none."""
        if told is not None or not type(self.dataset).__module__.startswith("grain."):
            return bool(told)
        columns = columns_of(self.dataset[0], self.with_labels, self.domain)
        return is_batch(columns, rank, self.domain)

    @functools.cached_property
    def form(self) -> Any:
        """Shape and type of the first example's inputs; see `form_of`."""
        return form_of(self.rows(np.arange(1))["inputs"])


class BatchesInOrder(keras.utils.PyDataset):
    """All examples once and in order, as batches of their columns; the last may be smaller.

    Args:
        examples: Examples with or without labels.
        batch_size: Examples in a batch, at least 1.
    """

    def __init__(self, examples: Examples, batch_size: int):
        super().__init__()
        self.examples, self.batch_size = examples, batch_size

    def __len__(self) -> int:
        return -(-self.examples.count // self.batch_size)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        first = index * self.batch_size
        rows = np.arange(first, min(first + self.batch_size, self.examples.count))
        columns = self.examples.rows(rows)
        return tuple(columns.values())


def columns_of(item: Any, with_labels: bool, domain: str) -> Any:
    """Returns the columns of an example or a batch that a dataset gives, in NumPy.

    Raises:
        ValueError: If there must be labels and the item is not `(inputs, labels)`, perhaps with
            weights.
    """
    parts = item if isinstance(item, tuple | list) else (item,)
    if with_labels and isinstance(item, dict):
        keys = list(item) if len(item) == 2 else ["image", "label"]
        raise ValueError(
            f"The {domain} must give `(input, label)`; of a `tf.data.Dataset` of dicts, as TFDS "
            f"gives without `as_supervised=True`, `dataset.map(lambda one: (one[{keys[0]!r}], "
            f"one[{keys[1]!r}]))` does. Received: a dict with {list(item)}"
        )
    if with_labels and len(parts) not in (2, 3):
        received = f"{len(parts)} parts" if len(parts) > 1 else type(item).__name__
        raise ValueError(
            f"The {domain} must give `(input, label)`, perhaps with a weight. Received: {received}"
        )
    columns = dict(zip(COLUMNS, parts if with_labels else parts[:1], strict=False))
    if with_labels:
        columns["labels"] = np.asarray(columns["labels"])  # a loader gives strings in a list
        refuse_strings(columns["labels"], domain)
    return keras.tree.map_structure(lambda one: np.asarray(in_memory(one, domain)), columns)


def _hint(inputs):
    """What to write if inputs came as a list of arrays, which are several inputs for Keras."""
    if not isinstance(inputs, list | tuple):
        return ""
    if len({np.shape(row) for row in keras.tree.flatten(inputs)}) > 1:
        return "; `keras.utils.pad_sequences(rows)` makes one input of rows of several lengths"
    return "; `numpy.asarray(rows)` makes one input of a list of rows"


def as_batch(columns: Any) -> Any:
    """Returns the columns of one example as those of a batch of one."""
    return keras.tree.map_structure(lambda leaf: leaf[np.newaxis], columns)


def refuse_strings(labels: Any, domain: str) -> None:
    """Raises a `ValueError` if labels are strings; it tells how to number them."""
    if is_of_strings(labels):
        raise ValueError(
            f"Labels of the {domain} must be numbers; {NUMBER_THEM}. "
            f"Received: labels such as {str(labels.flat[0])!r}"
        )


def is_batch(columns: Mapping[str, Any], rank: int, domain: str) -> bool:
    """Guesses whether columns are those of a batch rather than of an example.

    Args:
        columns: What a dataset gave. A batch has as many labels as inputs, and more than one.
        rank: Number of axes of one example's first input, or -1 if it is not known. It decides if
            there are no labels.
        domain: What messages call the domain.

    Raises:
        ValueError: If inputs and labels agree in more axes than the first, as one image and its
            label map do, and a batch of such series and their labels.
    """
    leaves = keras.tree.flatten(columns)
    if len(columns) > 1:
        lengths = {leaf.shape[:1] for leaf in leaves}
        inputs = keras.tree.flatten(columns["inputs"])
        if min(leaf.ndim for leaf in inputs) > 2 and len({leaf.shape[:2] for leaf in leaves}) == 1:
            shapes = " and ".join(str(leaf.shape) for leaf in leaves)
            raise ValueError(
                f"The {domain} has label maps, of which one example looks like a batch; say which "
                f"it gives, `pair(..., batched=False)` or `batched=True`. Received: {shapes}"
            )
        return len(lengths) == 1 and lengths.isdisjoint({(), (1,)})
    return leaves[0].ndim == rank + 1 if rank >= 0 else False


def is_endless(dataset: Any) -> bool:
    """Whether a dataset is endless: grain gives such datasets a length of their own."""
    return hasattr(dataset, "__len__") and len(dataset) == sys.maxsize


def form_of(columns: Any) -> Any:
    """Returns the shape and type of one row in words, in the structure of the columns."""
    return keras.tree.map_structure(lambda leaf: f"{leaf.shape[1:]} of {_kind(leaf)}", columns)


def _kind(leaf):
    """The type in words; strings of any length are of one."""
    return "strings" if is_of_strings(leaf) else leaf.dtype


def is_of_strings(values: Any) -> bool:
    """Returns whether an array holds strings or bytes."""
    return getattr(values.dtype, "kind", "") in "USTO" and isinstance(values.dtype, np.dtype)


def for_keras(inputs: Any) -> Any:
    """Returns inputs as `fit` takes them from a dataset: strings as tensors, lists as tuples."""
    return without_lists(strings_as_tensors(inputs))


def without_lists(inputs: Any) -> Any:
    """Returns a nested structure with tuples in the place of lists."""
    if isinstance(inputs, dict):
        return {name: without_lists(part) for name, part in inputs.items()}
    return tuple(map(without_lists, inputs)) if isinstance(inputs, list | tuple) else inputs


def strings_as_tensors(inputs: Any) -> Any:
    """Returns inputs with arrays of strings as tensors, because Keras takes no such arrays."""
    return keras.tree.map_structure(
        lambda leaf: (
            keras.ops.convert_to_tensor(leaf, dtype="string") if is_of_strings(leaf) else leaf
        ),
        inputs,
    )
