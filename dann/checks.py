"""Checks of arguments, with one wording: what was expected, and what came."""

import difflib
import math
import numbers
from collections.abc import Collection, Iterable, Sequence
from typing import Any


def check_number(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
    why: str = "",
) -> float:
    """Returns `value` as a float if it is a finite number in a range.

    Args:
        name: Name of the argument, for the error.
        value: The number; Python's or NumPy's.
        low: Smallest value. Defaults to none.
        high: Largest value. Defaults to none.
        above: Whether `low` itself is refused. Defaults to `False`.
        below: Whether `high` itself is refused. Defaults to `False`.
        why: Reason for the range or how to mend it, which the error adds. Defaults to none.

    Raises:
        TypeError: If it is not a number. A `bool` does not count as one.
        ValueError: If it is out of range or not finite.

    Example:

    >>> from dann.checks import check_number
    >>> check_number("p", 1.5, 0, 1, above=True)
    Traceback (most recent call last):
        ...
    ValueError: Argument `p` must be a finite number above 0 and of at most 1. Received: p=1.5
    """
    wanted = f"a finite number{_range(low, high, above, below)}"
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(_message(name, wanted, why, value))
    number = float(value)
    outside = not low <= number <= high or (above and number == low) or (below and number == high)
    if outside or not math.isfinite(number):
        raise ValueError(_message(name, wanted, why, value))
    return number


def check_integer(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, why: str = ""
) -> int:
    """Returns `value` as an integer if it is one in a range, both ends included.

    Arguments: as in `check_number`.

    Raises:
        TypeError: If it is not an integer. A `bool` does not count as one.
        ValueError: If it is out of range.

    Example:

    >>> from dann.checks import check_integer
    >>> check_integer("batch_size", 0, low=1)
    Traceback (most recent call last):
        ...
    ValueError: Argument `batch_size` must be an integer of at least 1. Received: batch_size=0
    """
    wanted = f"an integer{_range(low, high)}"
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise TypeError(_message(name, wanted, why, value))
    if not low <= value <= high:
        raise ValueError(_message(name, wanted, why, value))
    return int(value)


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> Any:
    """Returns `value` if it is one of the choices.

    The error lists the choices in their order; of more than 20, those that are like the value.

    Raises:
        ValueError: If it is none of them.
    """
    choices = list(choices)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        near = difflib.get_close_matches(str(value), map(str, choices), n=3)
        listed = ", ".join(map(repr, near if near and len(choices) > 20 else choices))
        raise ValueError(_message(name, f"one of {listed}", "", value))
    return value


def did_you_mean(word: str, choices: Collection[str]) -> str:
    """Returns a sentence that names at most three of the choices, those most like a word."""
    near = difflib.get_close_matches(word, choices, n=3)
    return f" Did you mean {', '.join(near)}?" if near else ""


def check_registered(what: str, obj: Any) -> None:
    """Raises `ValueError` unless Keras finds the function, or the object's class, by its name.

    Args:
        what: What it is, for the error.
        obj: Function or object that is to be saved with a model.
    """
    import keras

    named = obj if hasattr(obj, "__name__") else type(obj)
    found = keras.saving.get_registered_object(keras.saving.get_registered_name(named))
    if found is not named and not named.__module__.startswith("keras."):
        other = "nothing" if found is None else f"{found!r}"
        raise ValueError(
            f"{what} needs a name of its own to be saved with a model: put "
            "`@keras.saving.register_keras_serializable(name=...)` above its definition. "
            f"Received: {obj!r}, under whose name Keras knows {other}"
        )


def check_shape(what: str, shape: Sequence[Any], axes: Sequence[str], *, why: str = "") -> None:
    """Raises `ValueError` unless a shape has one length for each named axis.

    Args:
        what: What has the shape, for the error.
        shape: The shape of an array or tensor.
        axes: The names of its axes.
        why: As in `check_number`.

    Example:

    >>> from dann.checks import check_shape
    >>> check_shape("Labels", (8, 2), ["batch"])
    Traceback (most recent call last):
        ...
    ValueError: Labels must have the shape (batch,). Received: shape (8, 2)
    """
    if len(shape) != len(axes):
        words = str(tuple(axes)).replace("'", "")
        reason = f", {why}" if why else ""
        received = f"Received: shape {tuple(shape)}"
        raise ValueError(f"{what} must have the shape {words}{reason}. {received}")


def may_be_alike(shape: Any, other: Any) -> bool:
    """Whether two shapes may be the same; TensorFlow may not know one while it traces."""
    if None in (getattr(shape, "rank", 0), getattr(other, "rank", 0)):
        return True
    sizes = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(a == b or None in (a, b) for a, b in sizes)


def check_value_range(name: str, values: Any) -> tuple[float, float]:
    """Returns the smallest and the largest value of pixels, two numbers in this order.

    Raises:
        ValueError: If they are not two numbers of which the first is smaller.

    Example:

    >>> from dann.checks import check_value_range
    >>> check_value_range("value_range", (0, 255))
    (0, 255)
    """
    given = tuple(values)
    if len(given) != 2 or not given[0] < given[1]:
        wanted = "hold the smallest and the largest pixel value, in this order"
        raise ValueError(f"Argument `{name}` must {wanted}. Received: {name}={given}")
    return given


def check_class_range(
    what: str, labels: Any, num_classes: int, *, unknown: int | None = None
) -> None:
    """Raises `ValueError` unless every label is the number of a class.

    Args:
        what: What the labels are, for the error.
        labels: NumPy array of numbers.
        num_classes: Number of classes; their numbers are those below it, from 0.
        unknown: Further number that is allowed, of labels that are not known. Defaults to none.

    Example:

    >>> import numpy as np
    >>> from dann.checks import check_class_range
    >>> check_class_range("Labels", np.array([0, 3, 4, 1]), 3)
    Traceback (most recent call last):
        ...
    ValueError: Labels must be whole, at least 0 and below 3, the number of classes. Received: 3, 4
    """
    bad = (labels < 0) | (labels >= num_classes) | (labels % 1 != 0)
    wrong = sorted(set(labels[bad].tolist()) - {unknown})
    if wrong:
        known = "" if unknown is None else f", or {unknown} if unknown"
        found = ", ".join(f"{label:g}" for label in wrong[:5])
        more = ", ..." if len(wrong) > 5 else ""
        raise ValueError(
            f"{what} must be whole, at least 0 and below {num_classes}, the number of "
            f"classes{known}. Received: {found}{more}"
        )


def _message(name, wanted, why, value):
    reason = f", {why}" if why else ""
    return f"Argument `{name}` must be {wanted}{reason}. Received: {name}={value!r}"


def _range(low, high, above=False, below=False):
    """Words for a range, with a space before them; none where there are no bounds."""
    if -math.inf < low and high < math.inf and not (above or below):
        return f" from {low} to {high}"
    lower = f" above {low}" if above else f" of at least {low}"
    upper = f" below {high}" if below else f" of at most {high}"
    return " and".join([lower] * (low > -math.inf) + [upper] * (high < math.inf))


def has_tensorflow() -> bool:
    """Returns whether TensorFlow can be imported; this imports it, because it may be broken."""
    try:
        import tensorflow  # noqa: F401
    except ImportError:
        return False
    return True
