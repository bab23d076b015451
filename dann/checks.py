"""Checks of arguments, with one wording: what was expected, and what came."""

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

_SHOWN = 5  # wrong labels in a message


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


def is_integer(value: Any) -> bool:
    """Returns whether it is an integer of Python or NumPy. A `bool` does not count as one."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_integer(
    name: str, value: Any, low: int | None = None, high: int | None = None, *, why: str = ""
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
    bounds = -math.inf if low is None else low, math.inf if high is None else high
    wanted = f"an integer{_range(*bounds)}"
    if not is_integer(value):
        raise TypeError(_message(name, wanted, why, value))
    if not bounds[0] <= value <= bounds[1]:
        raise ValueError(_message(name, wanted, why, value))
    return int(value)


def check_names(name: str, values: Any, known: Iterable[str]) -> list[str]:
    """Returns `values` as a list if they are one or more of the known names.

    Raises:
        TypeError: If they are not a list, tuple or set of text.
        ValueError: If one is not known, or there are none; the error lists the known names.
    """
    if not isinstance(values, list | tuple | set | frozenset) or not all(
        isinstance(value, str) for value in values
    ):
        received = repr(values) if isinstance(values, str) else type(values).__name__
        raise TypeError(f"Argument `{name}` must be a list of names. Received: {received}")
    known, given = list(known), list(values)
    if unknown := [value for value in given if value not in known] or not given:
        listed = ", ".join(map(repr, known))
        raise ValueError(_message(name, f"names from: {listed}", "", unknown if given else given))
    return given


def check_choice(name: str, value: Any, choices: Iterable[Any], *, why: str = "") -> Any:
    """Returns `value` if it is one of the choices.

    The error lists the choices in their order. The other arguments are as in `check_number`.

    Raises:
        ValueError: If it is none of them.
    """
    choices = list(choices)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        listed = ", ".join(map(repr, choices))
        raise ValueError(_message(name, f"one of {listed}", why, value))
    return value


def check_flag(name: str, value: Any) -> bool:
    """Returns `value` if it is `True` or `False`; raises `TypeError` if it is neither."""
    if not isinstance(value, bool):
        raise TypeError(_message(name, "True or False", "", value))
    return value


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


def check_shape(
    what: str,
    shape: Sequence[Any],
    wanted: Sequence[Any],
    *,
    why: str = "",
    error: type[ValueError] = ValueError,
) -> None:
    """Raises `ValueError` unless a shape is the one that is wanted.

    Args:
        what: What has the shape, for the error.
        shape: The shape of an array or tensor; a length may be `None`, which is not known yet.
        wanted: For each axis its length, or its name if any length will do; `...` at the end stands
            for any further axes.
        why: As in `check_number`.
        error: Kind of `ValueError` to raise.

    Example:

    >>> from dann.checks import check_shape
    >>> check_shape("Images", (8, 28, 28), ("batch", 28, 28))
    >>> check_shape("Labels", (8, 2), ("batch",))
    Traceback (most recent call last):
        ...
    ValueError: Labels must have the shape (batch,). Received: shape (8, 2)
    """
    shape, axes = tuple(shape), [axis for axis in wanted if axis is not ...]
    long_enough = len(shape) >= len(axes) if ... in wanted else len(shape) == len(axes)
    fits = long_enough and all(
        isinstance(axis, str) or size in (axis, None)
        for axis, size in zip(axes, shape, strict=False)
    )
    if not fits:
        words = ", ".join("..." if axis is ... else str(axis) for axis in wanted)
        words = f"({words},)" if len(wanted) == 1 else f"({words})"
        reason = f", {why}" if why else ""
        raise error(f"{what} must have the shape {words}{reason}. Received: shape {shape}")


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
    what: str,
    labels: Any,
    num_classes: int,
    *,
    unknown: int | None = None,
    why: str = "",
    error: type[ValueError] = ValueError,
) -> None:
    """Raises `ValueError` unless every label is the number of a class.

    Args:
        what: What the labels are, for the error.
        labels: NumPy array of numbers.
        num_classes: Number of classes; their numbers are those below it, from 0.
        unknown: Further number that is allowed, of labels that are not known. Defaults to none.
        why: As in `check_number`.
        error: Kind of `ValueError` to raise.

    Example:

    >>> import numpy as np
    >>> from dann.checks import check_class_range
    >>> check_class_range("Labels", np.array([0, 3, 4, 1]), 3)
    Traceback (most recent call last):
        ...
    ValueError: Labels must be at least 0 and below 3, the number of classes. Received: 3, 4
    """
    wrong = sorted(set(labels[(labels < 0) | (labels >= num_classes)].tolist()) - {unknown})
    if wrong:
        known = "" if unknown is None else f", or {unknown} if unknown"
        reason = f", {why}" if why else ""
        found = ", ".join(f"{label:g}" for label in wrong[:_SHOWN])
        more = f" and {len(wrong) - _SHOWN} others" if len(wrong) > _SHOWN else ""
        raise error(
            f"{what} must be at least 0 and below {num_classes}, the number of classes{known}"
            f"{reason}. Received: {found}{more}"
        )


def _message(name, wanted, why, value):
    reason = f", {why}" if why else ""
    return f"Argument `{name}` must be {wanted}{reason}. Received: {name}={value!r}"


def _range(low, high, above=False, below=False):
    """Words for a range, with a space before them; none where there are no bounds."""
    if -math.inf < low and high < math.inf and not (above or below):
        return f" from {_text(low)} to {_text(high)}"
    lower = f"above {_text(low)}" if above else f"of at least {_text(low)}"
    upper = f"below {_text(high)}" if below else f"of at most {_text(high)}"
    bounds = [lower] * (low > -math.inf) + [upper] * (high < math.inf)
    return f" {' and '.join(bounds)}" if bounds else ""


def _text(bound):
    """A bound in full if it is an integer, which may be a long one."""
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
