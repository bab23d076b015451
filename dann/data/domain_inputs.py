"""What `pair` takes for a domain, and its checks."""

from typing import Any

import keras
import numpy as np

from dann.checks import check_class_range
from dann.data.conversion import as_array, is_sparse
from dann.data.examples import (
    COLUMNS,
    Examples,
    Items,
    is_endless,
    refuse_strings,
    without_lists,
)
from dann.data.lazy_arrays import DenseRows
from dann.data.streams import Stream, stream_of

Domain = Examples | Items | Stream


def source_of(
    given: Any,
    domain: str,
    batch_size: int,
    shuffled_by: int | None,
    num_classes: int | None,
    batched: bool | None = None,
) -> Domain:
    """Returns labelled examples.

    Args:
        given: `(inputs, labels)` or `(inputs, labels, weights)`, or a dataset; see `pair`.
        domain: What messages call the domain.
        batch_size: See `stream_of`.
        shuffled_by: See `stream_of`.
        num_classes: If given, the labels of arrays must be integers below it.
        batched: See `pair`.

    Raises:
        ValueError: If it holds no examples or no labels, or labels that do not fit.
    """
    if not isinstance(given, tuple | list):
        found = _dataset_of(given, domain, True, batch_size, shuffled_by, -1, batched)
        if found is None:
            raise ValueError(
                f"The {domain} must be `(inputs, labels)`, because its labels are needed. "
                f"Received: {type(given).__name__}"
            )
        return found
    if len(given) not in (2, 3):
        raise ValueError(
            f"The {domain} must be `(inputs, labels)`, perhaps with weights. "
            f"Received: a {type(given).__name__} of {len(given)}"
        )
    columns: dict[str, Any] = dict(zip(COLUMNS, given, strict=False))
    columns["inputs"] = nested(given[0], domain)
    for name in COLUMNS[1 : len(given)]:
        found = as_array(columns[name], f"{domain}'s {name}")
        columns[name] = (
            found[:] if isinstance(found, DenseRows) else found
        )  # scikit-learn's one-hot
    examples = Examples(columns, domain)
    labels, weights = columns["labels"], examples.columns.get("weights")
    refuse_strings(labels, domain)
    if weights is not None and tuple(weights.shape) not in ((len(labels),), tuple(labels.shape)):
        raise ValueError(
            f"The {domain} must have one weight for each example, or one for each label of a map. "
            f"Received: weights of shape {weights.shape}"
        )
    if weights is not None:
        _check_weights(np.asarray(weights), domain)
    if num_classes is not None:
        _check_classes(labels, num_classes, domain)
    return _not_empty(examples, domain)


def _check_classes(labels, num_classes, domain):
    """Raises `ValueError` for numbers of other classes; soft labels need a column for each."""
    if labels.dtype.kind == "f":
        if labels.ndim > 1 and labels.shape[-1] == num_classes:
            return
        whole = (labels == np.round(labels)).all()
        labels = labels.astype("int64") if whole else labels
    check_labels(labels.astype("int8") if labels.dtype == bool else labels, num_classes, domain)


def _check_weights(weights, domain):
    """Raises `ValueError` for weights that are negative or not finite, or 0 throughout."""
    wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
    if wrong.size or not weights.any():
        raise ValueError(
            f"The weights of the {domain} must be finite and at least 0, and some above 0. "
            f"Received: {wrong.flat[0] if wrong.size else 'zeros alone'}"
        )


def target_of(
    given: Any, form: Any, batch_size: int, shuffled_by: int | None, batched: bool | None = None
) -> Domain:
    """Returns the target's inputs and drops its labels.

    Args:
        given: Inputs of the form that the source's have, or `(inputs, labels)`, or a dataset.
        form: Shape and type of the source's inputs, see `form_of`; `None` if they are not known.
        batch_size: See `stream_of`.
        shuffled_by: See `stream_of`.
        batched: See `pair`.

    Raises:
        ValueError: If it holds no examples.
    """
    if not isinstance(given, tuple | list | dict):
        rank = -1 if form is None else _rank(keras.tree.flatten(form)[0])
        found = _dataset_of(given, "target", False, batch_size, shuffled_by, rank, batched)
        if found is not None:
            return found
    inputs = nested(given, "target")
    if isinstance(given, tuple | list) and form is not None and not _alike(inputs, form):
        # A list of two rows of numbers would pass for inputs and labels.
        paired = len(given) == 2 and (isinstance(given, tuple) or hasattr(given[0], "shape"))
        if not (paired and _alike(nested(given[0], "target"), form)):
            raise ValueError(
                "The target must be inputs like those of the source, or `(inputs, labels)`; make "
                "an array of rows with `numpy.asarray`. "
                f"Received: a {type(given).__name__} of {len(given)}"
            )
        inputs = nested(given[0], "target")
    return _not_empty(Examples({"inputs": inputs}, "target"), "target")


def check_alike(source: Any, other: Any, domain: str) -> None:
    """Raises a `ValueError` unless one network can take the inputs of both forms."""
    if not _alike(source, other):
        raise ValueError(
            "Inputs of both domains must have one structure. "
            f"Received: source {source}, {domain} {other}"
        )
    for mine, its in zip(keras.tree.flatten(source), keras.tree.flatten(other), strict=True):
        if mine != its:
            raise ValueError(
                "Inputs of both domains must have one shape and type. "
                f"Received: source {mine}, {domain} {its}"
            )


def check_columns(source: Any, other: Any, domain: str) -> None:
    """Raises a `ValueError` if frames of both domains have one set of columns in two orders."""
    mine, its = _columns(source), _columns(other)
    if mine != its and sorted(mine, key=str) == sorted(its, key=str):
        first = next(i for i, (a, b) in enumerate(zip(mine, its, strict=False)) if a != b)
        raise ValueError(
            "Frames of both domains must have their columns in one order: "
            f"`frame[list(source.columns)]` of the {domain} has. Received: in column {first} "
            f"{mine[first]!r} of the source, {its[first]!r} of the {domain}"
        )


def check_labels(labels: np.ndarray, num_classes: int, domain: str) -> None:
    """Raises a `ValueError` unless all labels are integers in `0 <= label < num_classes`."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"Labels of the {domain} must be integers. Received: labels of type {labels.dtype}"
        )
    check_class_range(f"Labels of the {domain}", labels, num_classes)


def _dataset_of(given, domain, with_labels, batch_size, shuffled_by, rank, batched):
    if isinstance(given, dict) or hasattr(given, "shape") or hasattr(given, "to_numpy"):
        return None
    by_index = hasattr(given, "__getitem__") and hasattr(given, "__len__")
    if by_index and not isinstance(given, keras.utils.PyDataset | str | bytes):
        items = _not_empty(Items(given, with_labels, domain), domain)
        if not (is_endless(given) or items.are_batches(rank, batched)):
            return items
    return stream_of(given, domain, with_labels, batch_size, shuffled_by, rank, batched)


def _columns(given):
    """The names of the columns of a frame or of `(frame, labels)`, else none."""
    frame: Any = given[0] if isinstance(given, tuple | list) and len(given) else given
    return list(frame.columns) if hasattr(frame, "to_numpy") and hasattr(frame, "columns") else []


def _not_empty(examples, domain):
    if not examples.count:
        raise ValueError(f"The {domain} holds no examples. Received: an empty domain")
    return examples


def nested(inputs: Any, domain: str) -> Any:
    """Returns the inputs with lists of numbers as arrays, so that only several are nested."""
    if is_sparse(inputs):
        return as_array(inputs, domain)  # SciPy's by keys are dicts, too
    if isinstance(inputs, dict):
        return {name: nested(part, domain) for name, part in inputs.items()}
    if isinstance(inputs, tuple | list):
        if inputs and all(isinstance(part, dict) or _has_rows(part) for part in inputs):
            return type(inputs)(nested(part, domain) for part in inputs)
        return as_array(inputs, domain)
    return inputs


def _rank(form):
    """Number of axes of one example, from its shape in words such as `(4, 3) of uint8`."""
    shape = form.split(" of ")[0].strip("(),")
    return len(shape.split(",")) if shape else 0


def _has_rows(values):
    return len(getattr(values, "shape", ())) > 0


def _alike(inputs, form):
    """Whether both have one structure; `fit` gives a model tuples for lists."""
    try:
        keras.tree.assert_same_structure(without_lists(inputs), without_lists(form))
    except (TypeError, ValueError):
        return False
    return True
