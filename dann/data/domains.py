"""What `pair` takes for a domain, and its checks."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from dann.checks import check_class_range
from dann.data.array_likes import as_array, in_order_of
from dann.data.examples import COLUMNS, Examples, is_of_strings, nested, without_lists
from dann.data.labels import ENCODE_LABELS_HINT
from dann.data.streams import Stream


def source_of(given: Any, domain: str, num_classes: int | None) -> Examples | Stream:
    """Returns labelled examples.

    Args:
        given: `(inputs, labels)` or `(inputs, labels, weights)`, or a dataset of such batches.
        domain: What messages call the domain.
        num_classes: If given, the labels of arrays must be integers below it.

    Raises:
        ValueError: If it holds no examples or no labels, or labels that do not fit.
    """
    if is_dataset(given):
        return Stream(given, True, domain)
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise ValueError(
            f"The {domain} must be `(inputs, labels)`, perhaps with weights, as in "
            "`dann.data.pair((inputs, labels), target_inputs)`, or a dataset of such batches. "
            f"Received: {type(given).__name__}"
        )
    labelled = zip(COLUMNS[1:], given[1:], strict=False)
    columns = {name: as_array(part, f"{domain}'s {name}") for name, part in labelled}
    examples = Examples({"inputs": nested(given[0], domain), **columns}, domain)
    _check_labels(examples, domain, num_classes)
    return examples


def target_of(given: Any, form: Any = None) -> Examples | Stream:
    """Returns the target's inputs and drops its labels.

    Args:
        given: Inputs of the form that the source's have, or `(inputs, labels)`, or a dataset of
            batches.
        form: Shape and type of the source's inputs, see `form_of`; `None` if they are not known.

    Raises:
        ValueError: If it holds no examples.
    """
    if is_dataset(given):
        return Stream(given, False, "target")
    inputs = inputs_of_target(given, isinstance(form, tuple | list))
    return Examples({"inputs": nested(inputs, "target")}, "target")


def inputs_of_target(given: Any, several: bool) -> Any:
    """Returns the inputs of what may be `(inputs, labels)`; two rows of numbers are inputs.

    Args:
        given: Inputs, or inputs and labels.
        several: Whether inputs themselves are a tuple or list.
    """
    if not isinstance(given, tuple | list) or len(given) != 2:
        return given
    labelled = isinstance(given, tuple) or hasattr(given[0], "shape") or isinstance(given[0], dict)
    if several:
        labelled = isinstance(given[0], tuple | list)
    return given[0] if labelled else given


def is_dataset(given: Any) -> bool:
    """Returns whether it is a dataset of batches, not made of arrays."""
    arrays = any(hasattr(given, name) for name in ("shape", "__array__"))
    return isinstance(given, Iterable) and not (
        arrays or isinstance(given, dict | tuple | list | str | bytes)
    )


def aligned(source: Any, other: Any, domain: str) -> Any:
    """Returns a domain whose frames have their columns in the order of the source's.

    Args:
        source: The source's inputs.
        other: Another domain's inputs, alone or in a tuple or list with its labels.
        domain: What messages call the other domain.
    """
    if isinstance(other, tuple | list) and len(other) and hasattr(other[0], "columns"):
        return type(other)([in_order_of(source, other[0], domain), *other[1:]])
    if isinstance(source, dict) and isinstance(other, dict):
        return {name: in_order_of(source.get(name), one, domain) for name, one in other.items()}
    return in_order_of(source, other, domain)


def check_alike(source: Any, other: Any, domain: str) -> None:
    """Raises a `ValueError` unless one network can take the inputs of both forms."""
    received = f"Received: source {source}, {domain} {other}"
    try:
        keras.tree.assert_same_structure(without_lists(source), without_lists(other))
    except (TypeError, ValueError):
        raise ValueError(f"Inputs of both domains must have one structure. {received}") from None
    if keras.tree.flatten(source) != keras.tree.flatten(other):
        raise ValueError(
            "Inputs of both domains must have one shape and type, and a dataset must give batches, "
            f"as `dataset.batch(64)` does. {received}"
        )


def check_labels(labels: np.ndarray, num_classes: int, domain: str) -> None:
    """Raises a `ValueError` unless all labels are integers in `0 <= label < num_classes`."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"Labels of the {domain} must be integers. Received: labels of type {labels.dtype}"
        )
    check_class_range(f"Labels of the {domain}", labels, num_classes)


def _check_labels(examples, domain, num_classes):
    """Checks the labels of arrays, and their weights."""
    labels, weights = (examples.columns.get(name) for name in ("labels", "weights"))
    if is_of_strings(labels):
        raise ValueError(
            f"Labels of the {domain} must be numbers; {ENCODE_LABELS_HINT}. "
            f"Received: labels such as {str(labels.flat[0])!r}"
        )
    if weights is not None:
        fits = tuple(weights.shape) in ((len(labels),), tuple(labels.shape))
        if not fits or np.min(weights) < 0 or not np.any(weights):
            raise ValueError(
                f"The {domain} must have one weight for each example, or one for each label of a "
                "map, of at least 0 and some above 0. "
                f"Received: weights of shape {weights.shape} from {np.min(weights)}"
            )
    kind = labels.dtype.kind
    soft = kind == "f" and labels.ndim > 1 and labels.shape[-1] == num_classes
    if num_classes is not None and not soft:
        whole = kind == "b" or (kind == "f" and (labels == np.round(labels)).all())
        check_labels(labels.astype("int64") if whole else labels, num_classes, domain)
