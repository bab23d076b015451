"""Before a sign a packed program computes with integers and bits, not with floats."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dann.deployment.runtime import OPERATIONS, Step

# The sign of the largest is the largest sign; the others change no value.
_COMMUTING = ("max_pool", "reshape")
_MONOTONE = ("hard_tanh", "relu", "relu6")


def kind_of(op: str, kinds: set[str]) -> str:
    """Returns the kind of the output of an operation on inputs of these kinds."""
    if op in ("sign", "threshold"):
        return "bits"
    if op in _COMMUTING:
        return min(kinds)
    return "int" if op.startswith("binary") or (op == "add" and kinds == {"int"}) else "float"


class Program:
    """The steps of a packed file, as layers add them; the first is the input.

    Between sums of signs and the next sign, batch normalization and any other monotone function
    becomes one integer threshold for each channel. Signs come before maxima and reshaping, which
    then work on bits.

    Args:
        shape: Shape of the input, without the batch.
        rules: By the name of a class, the function that adds the steps of a call of a layer or
            operation, a `dann.deployment.tracing.Call`, and returns the number of the last.
    """

    def __init__(self, shape: Sequence[int], rules: Mapping[str, Callable[[Any], int]]):
        self.steps = [Step("input", "input", (), shape)]
        self.rules = rules
        self._signs: dict[int, int] = {}

    def add(self, step: Step) -> int:
        """Adds a step, with the kind of its output, and returns its number."""
        kind = kind_of(step.op, {self.steps[one].kind for one in step.inputs})
        self.steps.append(dataclasses.replace(step, kind=kind))
        return len(self.steps) - 1

    def signs_of(self, number: int, layer: str) -> int:
        """Returns the number of the step that gives the signs of a step's output, as bits."""
        if number not in self._signs:
            self._signs[number] = self._new_signs(number, layer)
        return self._signs[number]

    def _new_signs(self, number, layer):
        step = self.steps[number]
        if step.op == "signs":
            return step.inputs[0]
        chain, base = [], number
        while _is_monotone(self.steps[base]):
            chain.insert(0, self.steps[base])
            (base,) = self.steps[base].inputs
        if self.steps[base].kind == "int":
            return self.add(self._threshold(chain, base, layer))
        if step.op in _COMMUTING:
            signs = self.signs_of(step.inputs[0], layer)
            return self.add(dataclasses.replace(step, inputs=[signs]))
        return self.add(Step("sign", layer, [number], step.shape))

    def _threshold(self, chain, base, layer):
        def positive(sums):
            sums = sums.astype("float32")
            for step in chain:
                sums = OPERATIONS[step.op](step, sums)
            return sums >= 0

        shape = self.steps[base].shape
        thresholds, flips = find_thresholds(positive, shape[-1], self._largest(base))
        arrays = {"thresholds": thresholds.astype("<i4"), "flips": flips}
        return Step("threshold", chain[0].layer if chain else layer, [base], shape, arrays=arrays)

    def _largest(self, number):
        """The largest sum of signs that a step can give."""
        step = self.steps[number]
        return step.attributes.get("fan_in") or sum(map(self._largest, step.inputs))

    def needed(self, last: int) -> list[Step]:
        """Returns the steps that one depends on, renumbered, and that one as the last."""
        needed = {0, last}
        for number in range(last, 0, -1):
            if number in needed:
                needed.update(self.steps[number].inputs)
        new = {old: number for number, old in enumerate(sorted(needed))}
        steps = [self.steps[old] for old in new]
        return [dataclasses.replace(s, inputs=[new[one] for one in s.inputs]) for s in steps]


def _is_monotone(step):
    rising = np.min(step.arrays.get("slopes", -1)) >= 0
    return rising or step.op == "affine" or step.attributes.get("function") in _MONOTONE


def find_thresholds(positive: Callable, channels: int, largest: int) -> tuple[Any, Any]:
    """Finds the integers at which a function changes, by bisection.

    It calls the function instead of solving its formula, because ties must round as in the model.

    Args:
        positive: Maps integers `(channels,)` to booleans, which change once at most in a channel.
        channels: Number of channels.
        largest: Maximum magnitude of the sums.

    Returns:
        - thresholds `t`, `(channels,)`, from `-largest` to `largest`
        - flips `f`, `(channels,)` of `bool`: for every integer `s` of at most that magnitude,
          `positive(s)` is `(s >= t) != f`

    Example:

    >>> import numpy as np
    >>> from dann.deployment.folding import find_thresholds
    >>> gamma, beta = np.array([2.0, -2.0, 0.0]), np.array([-3.0, -3.0, -3.0])
    >>> thresholds, flips = find_thresholds(lambda s: gamma * s + beta >= 0, 3, largest=9)
    >>> thresholds.tolist(), flips.tolist()
    ([2, -1, -9], [False, True, True])
    """
    low, high = np.full(channels, -largest), np.full(channels, largest)
    at_end = positive(high)
    # At `high` the sign is that of the end; below `low` it never is, unless it is everywhere.
    while (low < high).any():
        middle = (low + high) // 2
        same = positive(middle) == at_end
        high = np.where(same, middle, high)
        low = np.where(same, low, np.minimum(middle + 1, high))
    return high, ~at_end
