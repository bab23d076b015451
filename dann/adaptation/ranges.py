import math
import numbers


def check_range(
    name: str, value: float, low: float = 0.0, high: float = math.inf, above: bool = False
) -> float:
    """Returns `value` if it is a finite number in `low <= value <= high`.

    Args:
        name: Name of the argument, for the error.
        value: The number.
        low: Least value.
        high: Greatest value.
        above: Whether `low` itself is refused.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is out of range or not finite.
    """
    bound = f"above {low:g}" if above else f"at least {low:g}"
    wanted = f"Argument `{name}` must be a finite number, {bound}"
    wanted += "" if high == math.inf else f" and at most {high:g}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{wanted}. Received: {name}={value!r}")
    number = float(value)
    if not math.isfinite(number) or not low <= number <= high or (above and number == low):
        raise ValueError(f"{wanted}. Received: {name}={value!r}")
    return number


def check_count(name: str, value: int) -> int:
    """Returns `value` if it is an integer of at least 1.

    Args:
        name: Name of the argument, for the error.
        value: The integer.

    Raises:
        ValueError: If it is no integer, or below 1.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(
            f"Argument `{name}` must be an integer of at least 1. Received: {name}={value!r}"
        )
    return int(value)
