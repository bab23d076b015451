"""Argument checks that raise errors in one format: "Expected ... Received: ..."."""

import difflib
import functools
import math
import numbers
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any


def check_number(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    exclude_low: bool = False,
    exclude_high: bool = False,
    hint: str = "",
) -> float:
    """Returns `value` as a float if it is a finite number in a range.

    Args:
        name: Name of the argument, for the message.
        value: Python or NumPy number.
        low: Lower bound. Defaults to no bound.
        high: Upper bound. Defaults to no bound.
        exclude_low: Whether `low` itself is invalid. Defaults to `False`.
        exclude_high: Whether `high` itself is invalid. Defaults to `False`.
        hint: Reason or remedy, appended to the message. Defaults to none.

    Raises:
        TypeError: If `value` is not a number. A `bool` does not count as a number.
        ValueError: If `value` is out of range or not finite.

    Example:

    >>> from dann.checks import check_number
    >>> check_number("p", 1.5, 0, 1, exclude_low=True)
    Traceback (most recent call last):
        ...
    ValueError: Expected `p` to be a finite number > 0 and <= 1. Received: p=1.5
    """
    expected = f"a finite number{_describe_range(low, high, exclude_low, exclude_high)}"
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(_format_message(name, expected, hint, value))
    number = float(value)
    in_range = (low < number or (number == low and not exclude_low)) and (
        number < high or (number == high and not exclude_high)
    )
    if not in_range or math.isinf(number):
        raise ValueError(_format_message(name, expected, hint, value))
    return number


def check_integer(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, hint: str = ""
) -> int:
    """Returns `value` as an `int` if it is an integer from `low` to `high`, both included.

    `check_number` documents the arguments.

    Raises:
        TypeError: If `value` is not an integer. A `bool` does not count as an integer.
        ValueError: If `value` is out of range.

    Example:

    >>> from dann.checks import check_integer
    >>> check_integer("batch_size", 0, low=1)
    Traceback (most recent call last):
        ...
    ValueError: Expected `batch_size` to be an integer >= 1. Received: batch_size=0
    """
    expected = f"an integer{_describe_range(low, high)}"
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise TypeError(_format_message(name, expected, hint, value))
    if not low <= value <= high:
        raise ValueError(_format_message(name, expected, hint, value))
    return int(value)


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> Any:
    """Returns `value` if it is one of the choices.

    The message lists the choices in their order or, if there are more than 20, only the choices
    that resemble the value.

    Raises:
        ValueError: If `value` is not one of the choices.
    """
    choices = list(choices)
    # 1 == True == 1.0, so equality alone would accept a value of another type.
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        by_lower_case = {str(choice).lower(): str(choice) for choice in choices}
        close = difflib.get_close_matches(str(value).lower(), by_lower_case, n=3)
        if close and len(choices) > 20:
            matches = ", ".join(repr(by_lower_case[name]) for name in close)
            raise ValueError(f"Unknown `{name}`: {value!r}. Did you mean {matches}?")
        listed = ", ".join(map(repr, choices))
        raise ValueError(_format_message(name, f"one of {listed}", "", value))
    return value


def did_you_mean(word: str, choices: Collection[str]) -> str:
    """Returns a sentence that names up to three choices that resemble a word, or `""`."""
    matches = difflib.get_close_matches(word, choices, n=3)
    return f" Did you mean {', '.join(matches)}?" if matches else ""


@functools.cache
def print_warning(text: str) -> None:
    """Prints a warning about the data to standard error; each text once per process."""
    print(f"warning: {text}", file=sys.stderr)


def check_registered(subject: str, function: Any) -> None:
    """Raises a `ValueError` unless Keras can load a function, or an object, by its name.

    Args:
        subject: Noun phrase for the message, such as `"strength function"`.
        function: Function or object that is saved with a model.
    """
    import keras

    target = function if hasattr(function, "__name__") else type(function)
    registered = keras.saving.get_registered_object(keras.saving.get_registered_name(target))
    if registered is not target and not target.__module__.startswith("keras."):
        raise ValueError(
            f"Expected a registered {subject}, because models save it by name. Received: "
            f"{function!r}; under this name Keras has {registered!r}. Put "
            "`@keras.saving.register_keras_serializable(name=...)` with a unique name above the "
            "definition"
        )


def check_shape(subject: str, shape: Sequence[Any], axes: Sequence[str], *, hint: str = "") -> None:
    """Raises a `ValueError` unless a shape has as many axes as expected.

    Args:
        subject: Noun for the array or tensor, for the message.
        shape: Shape of the array or tensor.
        axes: Names of the expected axes.
        hint: Reason, appended to the expectation. Defaults to none.

    Example:

    >>> from dann.checks import check_shape
    >>> check_shape("labels", (8, 2), ["batch"])
    Traceback (most recent call last):
        ...
    ValueError: Expected labels of shape (batch,). Received: shape (8, 2)
    """
    if len(shape) != len(axes):
        expected = str(tuple(axes)).replace("'", "")
        reason = f", {hint}" if hint else ""
        raise ValueError(
            f"Expected {subject} of shape {expected}{reason}. Received: shape {tuple(shape)}"
        )


def shapes_may_match(shape: Any, pattern: Any) -> bool:
    """Returns whether two shapes can be equal; TensorFlow may not know sizes while it traces."""
    if None in (getattr(shape, "rank", 0), getattr(pattern, "rank", 0)):
        return True
    sizes = zip(shape, pattern, strict=False)
    return len(shape) == len(pattern) and all(a == b or None in (a, b) for a, b in sizes)


def check_value_range(name: str, values: Any) -> tuple[float, float]:
    """Returns the smallest and the largest pixel value as a tuple.

    Raises:
        ValueError: If the values are not two numbers, the smaller one first.

    Example:

    >>> from dann.checks import check_value_range
    >>> check_value_range("value_range", (0, 255))
    (0, 255)
    """
    value_range = tuple(values)
    if len(value_range) != 2 or not value_range[0] < value_range[1]:
        raise ValueError(
            f"Expected `{name}` to be the smallest and the largest pixel value, in this order. "
            f"Received: {name}={value_range}"
        )
    return value_range


def check_class_range(
    subject: str, labels: Any, num_classes: int, *, unknown: int | None = None
) -> None:
    """Raises a `ValueError` unless every label is the number of a class.

    Args:
        subject: Noun for the labels, for the message.
        labels: NumPy array of numbers.
        num_classes: Number of classes, which are numbered from 0.
        unknown: Number that marks an unknown label, which is accepted too. Defaults to none.

    Example:

    >>> import numpy as np
    >>> from dann.checks import check_class_range
    >>> check_class_range("labels", np.array([0, 3, 4, 1]), 3)
    Traceback (most recent call last):
        ...
    ValueError: Expected labels to be integers from 0 to 2, for 3 classes. Received: 3, 4
    """
    is_invalid = (labels < 0) | (labels >= num_classes) | (labels % 1 != 0)
    invalid = sorted(set(labels[is_invalid].tolist()) - {unknown})
    if invalid:
        alternative = "" if unknown is None else f", or {unknown} if unknown"
        received = ", ".join(f"{label:g}" for label in invalid[:5])
        more = ", ..." if len(invalid) > 5 else ""
        raise ValueError(
            f"Expected {subject} to be integers from 0 to {num_classes - 1}, for {num_classes} "
            f"classes{alternative}. Received: {received}{more}"
        )


def check_classifier(classifier: Any, num_classes: int) -> None:
    """Raises an error unless a model is functional and has one output `(batch, num_classes)`.

    Raises:
        TypeError: If the model is not functional, such as a method of `dann.adaptation`.
        ValueError: If it has several outputs or another number of classes.
    """
    outputs = getattr(classifier, "outputs", None)
    if outputs is None:
        raise TypeError(
            "Expected a functional Keras model from inputs to logits. Received: "
            f"{type(classifier).__name__}. For a method of `dann` pass `model.classifier`"
        )
    shapes = [tuple(output.shape) for output in outputs]
    if [shape[1:] for shape in shapes] != [(num_classes,)]:
        raise ValueError(
            f"Expected a classifier with one output, logits `(batch, {num_classes})`. Received: "
            f"outputs of shapes {shapes}"
        )


def has_tensorflow() -> bool:
    """Returns whether TensorFlow can be imported; imports it, because it may be broken."""
    try:
        import tensorflow  # noqa: F401
    except ImportError:
        return False
    return True


def _format_message(name, expected, hint, value):
    reason = f", {hint}" if hint else ""
    return f"Expected `{name}` to be {expected}{reason}. Received: {name}={value!r}"


def _describe_range(low, high, exclude_low=False, exclude_high=False):
    """Returns words for a range after a space, or `""` if there are no bounds."""
    if -math.inf < low and high < math.inf and not (exclude_low or exclude_high):
        return f" from {low} to {high}"
    bounds = []
    if low > -math.inf:
        bounds.append(f"{'>' if exclude_low else '>='} {low}")
    if high < math.inf:
        bounds.append(f"{'<' if exclude_high else '<='} {high}")
    return f" {' and '.join(bounds)}" if bounds else ""
