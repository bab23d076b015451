"""Examples of a domain that are read by index."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

COLUMNS = "inputs", "labels", "weights"


class InputSpec(NamedTuple):
    """Shape and type of one example's inputs in words, and the columns of frames, if any."""

    inputs: Any
    columns: Any


class Examples:
    """Columns of array-likes of one length, whose rows are read on demand.

    Args:
        columns: `"inputs"` and perhaps `"labels"`, `"weights"`, `"domain"`. Each is an array-like
            or, of a network with several inputs, a dict, tuple or list of them; see `as_array`.
        domain: What messages call the domain.

    Raises:
        ValueError: If a column is not made of arrays, lengths differ, weights are negative or of
            another shape than labels, or there are no examples.
    """

    def __init__(self, columns: Mapping[str, Any], domain: str):
        self.domain = domain
        self.columns: Any = {
            name: _mapped(lambda one: as_array(one, domain), column)
            for name, column in columns.items()
        }
        for labels in keras.tree.flatten(self.columns.get("labels", ())):
            reject_text_labels(labels)
        if "weights" in columns:
            weights = np.asarray(self.columns["weights"], np.float32)
            shape = np.shape(self.columns["labels"])
            if weights.shape not in (shape[:1], shape) or np.min(weights, initial=0) < 0:
                raise ValueError(
                    f"The {domain} must have one weight for each example, or one for each label of "
                    f"a map, of at least 0. Received: shape {weights.shape} from {weights.min()}"
                )
            self.columns["weights"] = weights
        counts = {np.shape(leaf)[:1] for leaf in keras.tree.flatten(self.columns)}
        if len(counts) != 1 or counts <= {(), (0,)}:
            shapes = keras.tree.map_structure(np.shape, self.columns)
            raise ValueError(
                f"The {domain} must hold examples, one label for each input and all arrays of one "
                "length; a dataset must give batches, as `dataset.batch(64)` does, and "
                f"`numpy.stack(rows)` makes one array of rows. Received: {shapes}"
            )
        ((self.count,),) = counts
        self._names = _mapped(lambda one: list(getattr(one, "columns", ())), columns["inputs"])

    def input_spec(self, ignore_spatial: bool = False) -> InputSpec:
        """Returns the form of the inputs, `of_any_size` without sizes of axes before the last."""
        words = _mapped(lambda array: _form(array, ignore_spatial), self.columns["inputs"])
        return InputSpec(words, self._names)

    def rows(self, indices: np.ndarray) -> Any:
        """Returns these rows of every column."""
        return keras.tree.map_structure(lambda leaf: self._read(leaf, indices), self.columns)

    def _read(self, leaf, indices):
        if type(leaf) is np.ndarray:
            return leaf[indices]
        return check_finite(np.asarray(leaf[indices]), self.domain)


class OrderedBatches(keras.utils.PyDataset):
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
        columns["inputs"] = convert_strings(columns["inputs"])
        return tuple(columns.values())


def is_dataset(given: Any) -> bool:
    """Returns whether it is a dataset of batches, not made of arrays."""
    arrays = any(hasattr(given, name) for name in ("shape", "__array__"))
    return isinstance(given, Iterable) and not (
        arrays or isinstance(given, dict | tuple | list | str | bytes)
    )


def split_columns(given: Any, with_labels: bool, domain: str) -> dict[str, Any]:
    """Returns columns by name of `(inputs, labels)`, perhaps with weights.

    Args:
        given: Such a tuple, or inputs alone.
        with_labels: Whether there must be labels. If not, all but the inputs is dropped.
        domain: What messages call the domain.

    Raises:
        ValueError: If there are no labels and there must be.
    """
    parts = given if isinstance(given, tuple) else (given,)
    if parts[0] is None:
        raise ValueError(f"The {domain} must be inputs. Received: None")
    if with_labels and (len(parts) not in (2, 3) or any(one is None for one in parts[1:2])):
        raise ValueError(
            f"The {domain} must be `(inputs, labels)`, perhaps with weights, as in "
            "`dann.data.pair((inputs, labels), target_inputs)`, or a dataset of such batches. "
            f"Received: {type(given).__name__} of {len(parts)}"
        )
    return dict(zip(COLUMNS, parts if with_labels else parts[:1], strict=False))


def as_array(values: Any, domain: str) -> Any:
    """Returns an array, or an array-like whose rows are read by index as it is.

    Args:
        values: Anything that `numpy.asarray` takes, such as a list of numbers, a pandas frame or a
            tensor; or anything with `len`, `shape` and a NumPy `dtype` that gives rows for an array
            of indices, such as a memory map or `dann.data.ImageFiles`.
        domain: What messages call the domain.

    Raises:
        ValueError: If it holds NaN, infinite or masked numbers, rows have different lengths, or
            objects are neither all numbers nor all texts.
    """
    if isinstance(getattr(values, "dtype", None), np.dtype) and not hasattr(values, "__array__"):
        return values
    if np.ma.is_masked(values):
        raise ValueError(f"The {domain} must lack no number. Received: a masked array")
    array = values if isinstance(values, np.memmap) else np.asarray(values)
    if array.dtype.kind in "UST":  # Keras knows texts as objects alone
        return array.astype(object)
    if array.dtype == object and not all(isinstance(one, str | bytes) for one in array.flat):
        try:
            array = array.astype("float64")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The {domain} must hold numbers, none of them missing; `pandas.get_dummies` makes "
                f"numbers of categories. Received: {error}"
            ) from None
    if array.dtype.kind in "cmM":  # of complex numbers Keras would drop the imaginary parts
        raise ValueError(
            f"The {domain} must hold real numbers: write real and imaginary parts, or dates as "
            f"numbers of days, in columns of their own. Received: {array.dtype}"
        )
    return array if isinstance(array, np.memmap) else check_finite(array, domain)


def check_finite(array: np.ndarray, domain: str) -> np.ndarray:
    """Returns an array; raises a `ValueError` if some of its numbers are NaN or infinite."""
    if array.dtype.kind in "biuO" or array.size == 0:
        return array
    # NaN and infinity reach the least or the largest number; this takes no memory.
    with np.errstate(invalid="ignore"):  # of bfloat16
        ends = [array.min(), array.max()]
    if not np.isfinite(ends).all():
        raise ValueError(
            f"The {domain} must hold finite numbers, none of them missing. Received: "
            f"{np.count_nonzero(~np.isfinite(array))} of {array.size} that are NaN or infinite"
        )
    return array


def check_matching_inputs(source: InputSpec, other: InputSpec, domain: str) -> None:
    """Raises a `ValueError` unless one network can take the inputs of both forms."""
    if source == other:
        return
    told = []
    for form, against in ((source, other), (other, source)):
        ours, theirs = ({*keras.tree.flatten(one.columns)} for one in (form, against))
        lacking = sorted(theirs - ours, key=str)
        columns = f", columns {form.columns or 'none'}, which lacks {lacking}"
        told.append(f"{form.inputs}{columns if ours or theirs else ''}")
    raise ValueError(
        "Inputs of both domains must have one structure, shape and type, and frames the same "
        "columns in one order, as `pandas.get_dummies(pandas.concat([source, target]))` has. "
        "Several inputs are a dict or a list; a tuple is `(inputs, labels)`. Received: source "
        f"{told[0]}; {domain} {told[1]}"
    )


def _mapped(function, values: Any) -> Any:
    """A list or tuple of arrays is several inputs, as a tuple; one of numbers is an array."""
    if isinstance(values, dict):
        return {name: _mapped(function, part) for name, part in values.items()}
    several = isinstance(values, tuple | list) and len(values) > 0
    if several and all(isinstance(one, dict) or len(getattr(one, "shape", ())) for one in values):
        return tuple(_mapped(function, part) for part in values)
    return function(values)


def _form(array, ignore_spatial):
    shape = array.shape[1:]
    if ignore_spatial:
        shape = (*("any" for _ in shape[:-1]), *shape[-1:])
    return f"{shape} of {'strings' if _is_of_strings(array) else array.dtype}"


def _is_of_strings(values):
    dtype = getattr(values, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "USTO"


def has_strings(inputs: Any) -> bool:
    """Returns whether some of the inputs are arrays of strings."""
    return any(map(_is_of_strings, keras.tree.flatten(inputs)))


def convert_strings(inputs: Any) -> Any:
    """Returns inputs with arrays of strings as tensors, because Keras takes no such arrays.

    Raises:
        ValueError: If there are strings and the backend is not TensorFlow.
    """

    def tensor(leaf):
        strings = _is_of_strings(leaf)
        return keras.ops.convert_to_tensor(leaf, dtype="string") if strings else leaf

    if keras.backend.backend() != "tensorflow" and has_strings(inputs):
        raise ValueError(
            "Texts are inputs on TensorFlow alone (KERAS_BACKEND=tensorflow); elsewhere make them "
            "numbers first, as `domains.map_inputs(function)` does. Received: the backend "
            f"{keras.backend.backend()}"
        )
    return keras.tree.map_structure(tensor, inputs)


def reject_text_labels(labels: Any) -> None:
    """Raises a `ValueError` if labels, an array or a tensor, are texts."""
    if has_strings(labels) or getattr(labels.dtype, "name", "") == "string":
        raise ValueError(
            "Labels must be numbers; `numpy.unique(labels, return_inverse=True)` numbers the "
            f"classes of texts. Received: {labels.dtype} of shape {labels.shape}"
        )


def to_class_indices(labels: Any) -> np.ndarray:
    """Returns the class of each example, integers `(n,)`.

    Args:
        labels: Whole numbers of any type or booleans, `(n,)` or one column `(n, 1)`, or one-hot
            `(n, classes)`.

    Raises:
        ValueError: If they are neither.

    Example:

    >>> from dann.data.examples import to_class_indices
    >>> to_class_indices([[0, 1], [1, 0]]).tolist(), to_class_indices([[2.0], [0.0]]).tolist()
    ([1, 0], [2, 0])
    """
    found = np.asarray(labels)
    one_hot = found.ndim == 2 and found.shape[1] > 1 and np.isin(found, (0, 1)).all()
    if one_hot and (found.sum(axis=1) == 1).all():
        found = found.argmax(axis=1)
    whole = found.dtype.kind in "biuf" and np.array_equal(found, np.round(found))
    if found.size != len(found) or not whole:
        raise ValueError(
            "The labels must be the number of a class for each example, or one-hot; "
            "`numpy.unique(labels, return_inverse=True)` numbers strings, and of maps only what a "
            f"model pools is compared. Received: {found.dtype} of shape {found.shape}"
        )
    return found.reshape(-1).astype("int64", copy=False)
