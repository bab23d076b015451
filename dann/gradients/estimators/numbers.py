"""What the parameters of estimators may be."""

import math
import numbers


def check_above_zero(name: str, value: float) -> float:
    """Returns `value` if it is a finite number above 0.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is 0, negative, infinite or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"Argument `{name}` must be a number. Received: {name}={value!r}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"Argument `{name}` must be finite and above 0. Received: {name}={value}")
    return value
