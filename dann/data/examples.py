"""Examples of one domain, which are read by index."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.data.conversion import (
    as_array,
    check_finite,
    convert_strings,
    has_strings,
    reject_text_labels,
)

COLUMNS = "inputs", "labels", "weights"


class InputSpec(NamedTuple):
    """Structure of the inputs of one example.

    Attributes:
        inputs: Shape and data type of each input, in words.
        columns: Column names of each data frame; an empty list for each other array.
    """

    inputs: Any
    columns: Any


class Examples:
    """Columns of array-likes of one length, whose rows are read on demand.

    Args:
        columns: Array-likes by name: `"inputs"` and optionally `"labels"`, `"weights"` and
            `"domain"`; see `as_array`. For a network with several inputs, `"inputs"` is a dict,
            tuple or list of array-likes.
        domain: Name of the domain in error messages.

    Attributes:
        column_names: Column names of all data frames in the inputs.

    Raises:
        ValueError: If a column cannot be converted to arrays, lengths differ, there are no
            examples, or weights are negative or do not have the shape of the labels.
    """

    def __init__(self, columns: Mapping[str, Any], domain: str):
        self.domain = domain
        self.columns: Any = {
            name: _map_arrays(lambda values: as_array(values, domain), column)
            for name, column in columns.items()
        }
        for labels in keras.tree.flatten(self.columns.get("labels", ())):
            reject_text_labels(labels)
        if "weights" in columns:
            self.columns["weights"] = self._check_weights()
        counts = {np.shape(array)[:1] for array in keras.tree.flatten(self.columns)}
        is_empty = any(0 in np.shape(array) for array in keras.tree.flatten(self.columns))
        if len(counts) != 1 or counts == {()} or is_empty:
            shapes = keras.tree.map_structure(np.shape, self.columns)
            expected, hint = "arrays of one length, such as one label per input", ""
            if len(counts) == 1 and is_empty:
                expected = "at least one example, of at least one number"
            elif () in counts:
                hint = ". Use `dataset.batch(64)` for a dataset of single examples"
            elif isinstance(self.columns["inputs"], tuple):
                hint = ". Use `numpy.stack(rows)` for a list of rows"
            raise ValueError(
                f"Expected the {domain} to contain {expected}. Received: shapes {shapes}{hint}"
            )
        ((self.count,),) = counts
        self._frame_columns = get_frame_columns(columns["inputs"])
        self.column_names = list_column_names(columns["inputs"])

    def _check_weights(self):
        weights = np.asarray(self.columns["weights"], np.float32)
        shape = np.shape(self.columns["labels"])
        # Either (n,), or the shape of label maps such as (n, height, width).
        low, high = np.min(weights, initial=np.inf), np.max(weights, initial=-np.inf)
        is_invalid = low < 0 or (weights.size and high <= 0)
        if weights.shape not in (shape[:1], shape) or is_invalid:
            raise ValueError(
                f"Expected the {self.domain} to have weights >= 0, not all 0: one per example, or "
                f"one per label of a map. Received: shape {weights.shape}, from {low} to {high}"
            )
        return weights

    def input_spec(self, ignore_spatial: bool = False) -> InputSpec:
        """Returns the structure of the inputs.

        Args:
            ignore_spatial: Whether to ignore the lengths of all axes but the last, in which domains
                may differ. Defaults to `False`.
        """

        def describe(array):
            shape = array.shape[1:]
            if ignore_spatial:
                shape = (*("any" for _ in shape[:-1]), *shape[-1:])
            return f"{shape} of {'strings' if has_strings(array) else array.dtype}"

        return InputSpec(_map_arrays(describe, self.columns["inputs"]), self._frame_columns)

    def rows(self, indices: np.ndarray) -> Any:
        """Returns the rows at `indices` of every column."""
        return keras.tree.map_structure(lambda array: self._read(array, indices), self.columns)

    def _read(self, array, indices):
        if type(array) is np.ndarray:  # checked in the constructor
            return array[indices]
        return check_finite(np.asarray(array[indices]), self.domain)


class OrderedBatches(keras.utils.PyDataset):
    """Batches that contain every example once, in order; the last batch may be smaller.

    Args:
        examples: Examples with or without labels.
        batch_size: Number of examples per batch, at least 1.

    Attributes:
        columns: Column names of all data frames in the inputs.
    """

    columns: Sequence[str] = ()

    def __init__(self, examples: Examples, batch_size: int):
        super().__init__()
        self.examples, self.batch_size = examples, batch_size

    def __len__(self) -> int:
        return -(-self.examples.count // self.batch_size)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        first = index * self.batch_size
        rows = np.arange(first, min(first + self.batch_size, self.examples.count))
        columns = self.examples.rows(rows)
        columns["inputs"] = convert_strings(columns["inputs"])
        return tuple(columns.values())


def get_frame_columns(inputs: Any) -> Any:
    """Returns the column names of each data frame in inputs; an empty list for each other array."""
    return _map_arrays(lambda values: list(getattr(values, "columns", ())), inputs)


def list_column_names(inputs: Any) -> list[str]:
    """Returns the column names of all data frames in inputs, or of pairs, as strings."""
    return [str(name) for name in keras.tree.flatten(get_frame_columns(inputs))]


def check_frame_columns(inputs: Any, expected: Sequence[str]) -> None:
    """Raises `ValueError` if data frames have other columns than the frames in `fit`.

    Args:
        inputs: Inputs or pairs; arrays are accepted.
        expected: Names of the columns in `fit`, or no names if `fit` used arrays.
    """
    names = list_column_names(inputs)
    if names and expected and names != list(expected):
        raise ValueError(
            "Expected data frames with the columns of the frames in `fit`, in the same order: "
            f"{list(expected)}. Received: {names}. Select the columns with `frame[names]`."
        )


def check_last_axis(name: str, inputs: Any, shape: Sequence[int | None]) -> None:
    """Raises `ValueError` for inputs with other numbers of columns or channels than a network.

    Args:
        name: Name of the inputs for the message.
        inputs: Inputs. Structures of arrays, and arrays that Keras reshapes, are accepted.
        shape: Shape of the network's input, with `None` for an axis of any length.
    """
    received: tuple[Any, ...] = tuple(getattr(inputs, "shape", ()))
    is_fixed = len(received) == len(shape) > 1 and None not in (received[-1], shape[-1])
    if is_fixed and received[-1] != shape[-1]:
        raise ValueError(
            f"Expected inputs of shape {tuple(shape[1:])}, as the backbone has. "
            f"Received: {name} of shape {received[1:]}"
        )


def is_dataset(data: Any) -> bool:
    """Returns whether `data` is an iterable of batches rather than a structure of arrays."""
    is_array = any(hasattr(data, name) for name in ("shape", "__array__"))
    is_structure = isinstance(data, dict | tuple | list | str | bytes)
    return isinstance(data, Iterable) and not is_array and not is_structure


def split_columns(data: Any, with_labels: bool, domain: str) -> dict[str, Any]:
    """Returns inputs, labels and weights by name.

    Args:
        data: Inputs, or a tuple `(inputs, labels)` or `(inputs, labels, weights)`.
        with_labels: Whether labels are required. If `False`, only the inputs are returned.
        domain: Name of the domain in error messages.

    Raises:
        ValueError: If required labels are missing.
    """
    parts: tuple[Any, ...] = data if isinstance(data, tuple) else (data,)
    if with_labels and (len(parts) not in (2, 3) or parts[1] is None):
        received = f"of length {len(parts)}" if len(parts) > 3 else "without labels"
        raise ValueError(
            f"Expected the {domain} to be `(inputs, labels)`, optionally with weights, as in "
            "`dann.data.pair((inputs, labels), target_inputs)`, or a dataset of such batches. "
            f"Received: {type(data).__name__} {received}"
        )
    return dict(zip(COLUMNS, parts if with_labels else parts[:1], strict=False))


def check_matching_inputs(source: InputSpec, target: InputSpec, domain: str) -> None:
    """Raises `ValueError` unless one network accepts the inputs of both specs.

    Args:
        source: Spec of the source's inputs.
        target: Spec of the inputs of another domain.
        domain: Name of the other domain.
    """
    if source != target:
        hint = "Convert both domains to one shape, data type and scale"
        if source.columns != target.columns:
            hint = "`pandas.get_dummies(pandas.concat([source, target]))` makes the columns equal"
        raise ValueError(
            "Expected inputs of both domains to have the same structure, shapes and data types, "
            "and data frames to have the same columns in the same order. Received: source "
            f"{_describe_spec(source, target)}; {domain} {_describe_spec(target, source)}. "
            f"{hint}. Pass several inputs as a dict or a list, because a tuple means `(inputs, "
            "labels)`"
        )


def _describe_spec(spec, reference):
    names, expected = ({*keras.tree.flatten(s.columns)} for s in (spec, reference))
    if not names and not expected:
        return spec.inputs
    missing = sorted(expected - names, key=str)
    return f"{spec.inputs}, columns {spec.columns or 'none'}, missing columns {missing}"


def _map_arrays(function, values: Any) -> Any:
    """Applies a function to each array.

    A list of arrays is treated as several inputs, a list of numbers as a single array.
    """
    if isinstance(values, dict):
        return {name: _map_arrays(function, value) for name, value in values.items()}
    if isinstance(values, tuple | list) and values and all(map(_is_structure, values)):
        return tuple(_map_arrays(function, value) for value in values)
    return function(values)


def _is_structure(value):
    return isinstance(value, dict) or len(getattr(value, "shape", ())) > 0
