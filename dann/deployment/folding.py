"""Makes a program smaller: before a sign it computes with integers and bits, not floats."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from dann.deployment.lowering import Builder
from dann.deployment.runtime import OPERATIONS, Step, pack_bits

# The sign of the largest is the largest sign; reshaping changes no value.
_COMMUTING = ("max_pool", "reshape")


def fold(steps: Sequence[Step]) -> list[Step]:
    """Returns a smaller program with the same outputs, to the last bit.

    - Between sums of signs and the next sign, batch normalization and any other monotone function
      becomes one integer threshold for each channel.
    - Signs come before maxima and reshaping, which then work on bits.
    - Signs of signs are taken once, and steps that nothing depends on are dropped.
    """
    return _Folding(steps).program()


def find_thresholds(
    function: Callable[[np.ndarray], np.ndarray], channels: int, largest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the integers at which `function >= 0` changes, by bisection.

    It calls the function instead of solving its formula, because ties must round as in the model.

    Args:
        function: Maps values `(channels,)` to others, monotonically in each channel.
        channels: Number of channels.
        largest: Maximum magnitude of the sums.

    Returns:
        - thresholds `t`, `(channels,)` of `int32`, from `-largest` to `largest`
        - flips `f`, `(channels,)` of `bool`: for every integer `s` of at most that magnitude,
          `function(s) >= 0` exactly where `(s >= t) != f`

    Example:

    >>> import numpy as np
    >>> from dann.deployment.folding import find_thresholds
    >>> gamma, beta = np.array([2.0, -2.0, 0.0]), np.array([-3.0, -3.0, -3.0])
    >>> thresholds, flips = find_thresholds(lambda sums: gamma * sums + beta, 3, largest=9)
    >>> thresholds.tolist(), flips.tolist()
    ([2, -1, -9], [False, True, True])
    """

    def positive(sums):
        return np.asarray(function(sums.astype("float32"))) >= 0

    high = np.full(channels, largest)
    at_end = positive(high)
    # At `high` the sign is that of the end; below `low` it never is, unless it is everywhere.
    low = np.full(channels, -largest)
    while (low < high).any():
        middle = (low + high) // 2
        same = positive(middle) == at_end
        high = np.where(same, middle, high)
        low = np.where(same, low, np.minimum(middle + 1, high))
    return high.astype("int32"), ~at_end


class _Folding:
    def __init__(self, steps: Sequence[Step]):
        self._old = steps
        self._new = Builder()
        self._known: dict[tuple[str, int], int] = {}

    def program(self):
        # In order, because a step's inputs are then known, without recursion through the network.
        for number in range(len(self._old)):
            last = self._values(number)
        return _needed(self._new, last)

    def _add(self, step, inputs, **changes):
        self._new.append(dataclasses.replace(step, inputs=inputs, **changes))
        return len(self._new) - 1

    def _values(self, number):
        """The number of the new step that gives an old step's output."""
        if ("values", number) not in self._known:
            step = self._old[number]
            if step.op == "sign":
                new = self._signs(step.inputs[0], step)
            else:
                new = self._add(step, [self._values(one) for one in step.inputs])
            self._known["values", number] = new
        return self._known["values", number]

    def _signs(self, number, sign):
        """The number of the new step that gives the signs of an old step's output."""
        if ("signs", number) not in self._known:
            self._known["signs", number] = self._new_signs(number, sign)
        return self._known["signs", number]

    def _new_signs(self, number, sign):
        step = self._old[number]
        if step.op == "signs":
            return self._values(step.inputs[0])
        chain, base = self._chain(number)
        if self._old[base].kind == "int":
            return self._threshold(chain, base, sign)
        if step.op in _COMMUTING:
            return self._add(step, [self._signs(one, sign) for one in step.inputs], kind="bits")
        return self._add(sign, [self._values(number)], shape=step.shape)

    def _chain(self, number):
        """The monotone steps that end with this one, and the number of the step before them."""
        chain, step = [], self._old[number]
        while _is_monotone(step):
            chain.insert(0, step)
            (number,) = step.inputs
            step = self._old[number]
        return chain, number

    def _threshold(self, chain, base, sign):
        functions = [OPERATIONS[step.op](step) for step in chain]

        def outputs(sums):
            for function in functions:
                sums = function(sums)
            return sums

        channels = self._old[base].shape[-1]
        thresholds, flips = find_thresholds(outputs, channels, self._largest(base))
        arrays = {"thresholds": thresholds.astype("<i4"), "flips": pack_bits(flips).astype("<u8")}
        layer, shape = (chain[0] if chain else sign).layer, self._old[base].shape
        return self._add(
            Step("threshold", layer, (), shape, "bits", {}, arrays), [self._values(base)]
        )

    def _largest(self, number):
        """The maximum magnitude of a step's sums: how many signs one sum adds."""
        step = self._old[number]
        while "fan_in" not in step.attributes:
            step = self._old[step.inputs[0]]
        return step.attributes["fan_in"]


def _needed(steps, last):
    """The steps that the last one depends on, renumbered."""
    needed = {0, last}
    for number in range(last, 0, -1):
        if number in needed:
            needed.update(steps[number].inputs)
    new = {old: number for number, old in enumerate(sorted(needed))}
    return [
        dataclasses.replace(steps[old], inputs=[new[one] for one in steps[old].inputs])
        for old in new
    ]


def _is_monotone(step):
    if step.op == "prelu":
        return bool((step.arrays["slopes"] >= 0).all())
    return step.op == "affine" or step.attributes.get("function") == "relu"
