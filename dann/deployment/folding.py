"""Makes a program smaller: before a sign it computes with integers and bits, not floats."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from dann.deployment.packed_file import pack_bits
from dann.deployment.runtime import OPERATIONS, Step

# The sign of the largest is the largest sign; the others change no value.
_COMMUTING = ("concatenate", "max_pool", "reshape")
_MONOTONE = ("hard_tanh", "relu", "relu6")


def fold(steps: Sequence[Step]) -> list[Step]:
    """Returns a smaller program with the same outputs, to the last bit.

    - Between sums of signs and the next sign, batch normalization and any other monotone function
      becomes one integer threshold for each channel.
    - Signs come before maxima, reshaping and concatenation, which then work on bits.
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

    low, high = np.full(channels, -largest), np.full(channels, largest)
    at_end = positive(high)
    # At `high` the sign is that of the end; below `low` it never is, unless it is everywhere.
    while (low < high).any():
        middle = (low + high) // 2
        same = positive(middle) == at_end
        high = np.where(same, middle, high)
        low = np.where(same, low, np.minimum(middle + 1, high))
    return high.astype("int32"), ~at_end


class _Folding:
    def __init__(self, steps: Sequence[Step]):
        self._old = steps
        self._new: list[Step] = []
        self._values: list[int] = []  # the new step that gives an old step's output
        self._signs: dict[int, int] = {}  # or its signs

    def program(self):
        for step in self._old:
            if step.op == "sign":
                new = self._sign(step.inputs[0], step)
            else:
                new = self._add(step, [self._values[one] for one in step.inputs])
            self._values.append(new)
        return _needed(self._new, new)

    def _add(self, step, inputs, **changes):
        self._new.append(dataclasses.replace(step, inputs=inputs, **changes))
        return len(self._new) - 1

    def _sign(self, number, sign):
        """The number of the new step that gives the signs of an old step's output."""
        if number not in self._signs:
            self._signs[number] = self._new_sign(number, sign)
        return self._signs[number]

    def _new_sign(self, number, sign):
        step = self._old[number]
        if step.op == "signs":
            return self._values[step.inputs[0]]
        chain, base = self._chain(number)
        if self._old[base].kind == "int":
            return self._threshold(chain, base, sign)
        if step.op in _COMMUTING:
            return self._add(step, [self._sign(one, sign) for one in step.inputs], kind="bits")
        return self._add(sign, [self._values[number]], shape=step.shape)

    def _chain(self, number):
        """The monotone steps that end with this one, and the number of the step before them."""
        chain, step = [], self._old[number]
        while _is_monotone(step):
            chain.insert(0, step)
            (number,) = step.inputs
            step = self._old[number]
        return chain, number

    def _threshold(self, chain, base, sign):
        functions, old = [OPERATIONS[step.op](step) for step in chain], self._old[base]

        def outputs(sums):
            for function in functions:
                sums = function(sums)
            return sums

        thresholds, flips = find_thresholds(outputs, old.shape[-1], self._largest(base))
        arrays = {"thresholds": thresholds.astype("<i4"), "flips": pack_bits(flips)}
        step = Step("threshold", (chain or [sign])[0].layer, (), old.shape, "bits", {}, arrays)
        return self._add(step, [self._values[base]])

    def _largest(self, number):
        """The maximum magnitude of a step's sums: how many signs one sum adds."""
        while "fan_in" not in self._old[number].attributes:
            (number,) = self._old[number].inputs
        return self._old[number].attributes["fan_in"]


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
    return step.op == "affine" or step.attributes.get("function") in _MONOTONE
