"""Examples of a domain that are read by index."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from dann.data.array_likes import as_array, check_finite

COLUMNS = "inputs", "labels", "weights"


class Examples:
    """Columns of array-likes of one length, whose rows are read on demand.

    Args:
        columns: `"inputs"` and perhaps `"labels"`, `"weights"`, `"domain"`. Each is an array-like
            or a nested structure of them.
        domain: What messages call the domain.

    Raises:
        ValueError: If a column is not made of arrays, lengths differ, or there are no examples.
    """

    def __init__(self, columns: Mapping[str, Any], domain: str):
        self.domain = domain
        self.columns: Any = keras.tree.map_structure(lambda one: as_array(one, domain), columns)
        lengths = {
            len(leaf): name
            for name, column in self.columns.items()
            for leaf in keras.tree.flatten(column)
        }
        if len(lengths) != 1:
            found = " and ".join(f"{count} {name}" for count, name in lengths.items())
            raise ValueError(
                f"The {domain} must have one label for each input, and all arrays one length; a "
                "list of arrays is several inputs, `numpy.stack(rows)` makes one of rows. "
                f"Received: {found or 'no arrays'}"
            )
        self.count = next(iter(lengths))
        if not self.count:
            raise ValueError(f"The {domain} holds no examples. Received: an empty domain")

    def rows(self, indices: np.ndarray) -> Any:
        """Returns these rows of every column."""
        return keras.tree.map_structure(lambda leaf: self._read(leaf, indices), self.columns)

    def _read(self, leaf, indices):
        if type(leaf) is np.ndarray:
            return leaf[indices]
        return check_finite(np.asarray(leaf[indices]), self.domain)

    @property
    def form(self) -> Any:
        """Shape and type of one example's inputs; see `form_of`."""
        return form_of(self.columns["inputs"])


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
        return tuple(self.examples.rows(rows).values())


def nested(inputs: Any, domain: str) -> Any:
    """Returns inputs as arrays: one, or a dict, tuple or list for a network with several inputs.

    A tuple or list of arrays is several inputs, one of rows of numbers is an array.
    """
    if isinstance(inputs, dict):
        return {name: nested(part, domain) for name, part in inputs.items()}
    several = isinstance(inputs, tuple | list) and len(inputs) > 0
    if several and all(isinstance(part, dict) or _has_rows(part) for part in inputs):
        return type(inputs)(nested(part, domain) for part in inputs)
    return as_array(inputs, domain)


def _has_rows(values):
    return len(getattr(values, "shape", ())) > 0


def form_of(columns: Any) -> Any:
    """Returns the shape and type of one row in words, in the structure of the columns."""
    return keras.tree.map_structure(
        lambda leaf: f"{leaf.shape[1:]} of {'strings' if is_of_strings(leaf) else leaf.dtype}",
        columns,
    )


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
