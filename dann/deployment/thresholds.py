"""What follows integer sums up to their sign, as one threshold a channel."""

from collections.abc import Callable

import numpy as np


def find_thresholds(
    function: Callable[[np.ndarray], np.ndarray], channels: int, largest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the integers at which `function >= 0` changes, by bisection.

    The function is asked, not its formula: at a tie it rounds as it will in the model.

    Args:
        function: From values of all channels `(channels,)` to others; in each channel it never
            falls, or never rises.
        channels: Number of channels.
        largest: Greatest magnitude of the sums.

    Returns:
        - thresholds `t`, `(channels,)` of `int32`, from `-largest` to `largest`
        - flips `f`, `(channels,)` of `bool`: for every integer `s` of at most that magnitude,
          `function(s) >= 0` exactly where `(s >= t) != f`

    Example:

    >>> import numpy as np
    >>> from dann.deployment.thresholds import find_thresholds
    >>> gamma, beta = np.array([2.0, -2.0, 0.0]), np.array([-3.0, -3.0, -3.0])
    >>> thresholds, flips = find_thresholds(lambda sums: gamma * sums + beta, 3, largest=9)
    >>> thresholds.tolist(), flips.tolist()
    ([2, -1, -9], [False, True, True])
    """

    def positive(sums):
        return np.asarray(function(sums.astype("float32"))) >= 0

    high = np.full(channels, largest)
    at_end = positive(high)
    # Always at `high`: what `function` is at the end. Below `low` never, unless it is everywhere.
    low = np.full(channels, -largest)
    while (low < high).any():
        middle = (low + high) // 2
        same = positive(middle) == at_end
        high = np.where(same, middle, high)
        low = np.where(same, low, np.minimum(middle + 1, high))
    return high.astype("int32"), ~at_end
