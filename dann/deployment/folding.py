"""Replaces float computations before a sign by computations on integers and bits."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dann.deployment.runtime import OPERATIONS, Step

# Operations that commute with the sign: the sign of a maximum is the maximum of the signs.
_COMMUTING = ("max_pool", "reshape")
_MONOTONE = ("hard_tanh", "relu", "relu6")


def get_output_kind(op: str, kinds: set[str]) -> str:
    """Returns the kind of the output of an operation on inputs of the given kinds."""
    if op in ("sign", "threshold"):
        return "bits"
    if op in _COMMUTING:
        return min(kinds)
    return "int" if op.startswith("binary") or (op == "add" and kinds == {"int"}) else "float"


class Program:
    """The steps of a packed file; layers add them in order, and the first are the inputs.

    Between sums of signs and the next sign, batch normalization and other monotone functions become
    one integer threshold per channel. Signs are moved before maxima and reshaping, which then work
    on bits.

    Args:
        shapes: Shapes of the inputs, without the batch.
        translate: Adds the steps of a `dann.deployment.tracing.Call`, and returns the numbers of
            the steps that compute its outputs.
    """

    def __init__(self, shapes: Iterable[Sequence], translate: Callable[[Any], list[int]]):
        self.steps = [Step("input", "input", (), list(shape)) for shape in shapes]
        self.translate = translate
        self._signs: dict[int, int] = {}

    def add(self, step: Step) -> int:
        """Adds a step, with the kind of its output, and returns its number."""
        kind = get_output_kind(step.op, {self.steps[source].kind for source in step.inputs})
        self.steps.append(dataclasses.replace(step, kind=kind))
        return len(self.steps) - 1

    def add_signs(self, number: int, layer: str) -> int:
        """Adds the steps that compute the signs of an output as bits, unless they exist.

        Args:
            number: Number of the step whose output is binarized.
            layer: Name of the layer that takes the signs.

        Returns:
            The number of the step with the signs.
        """
        if number not in self._signs:
            self._signs[number] = self._add_new_signs(number, layer)
        return self._signs[number]

    def _add_new_signs(self, number, layer):
        step = self.steps[number]
        if step.op == "signs":  # numbers -1 and +1, whose bits exist already
            return step.inputs[0]
        # Monotone steps after integer sums fold into one threshold per channel.
        chain, base = [], number
        while _is_monotone(self.steps[base]):
            chain.insert(0, self.steps[base])
            (base,) = self.steps[base].inputs
        if self.steps[base].kind == "int":
            return self.add(self._make_threshold(chain, base, layer))
        if step.op in _COMMUTING:
            signs = self.add_signs(step.inputs[0], layer)
            return self.add(dataclasses.replace(step, inputs=[signs]))
        return self.add(Step("sign", layer, [number], step.shape))

    def _make_threshold(self, chain, base, layer):
        def is_positive(sums):
            sums = sums.astype("float32")
            for step in chain:
                sums = OPERATIONS[step.op](step, sums)
            return sums >= 0

        shape = self.steps[base].shape
        thresholds, flips = find_thresholds(is_positive, shape[-1], self._largest_sum(base))
        arrays = {"thresholds": thresholds.astype("<i4"), "flips": flips}
        return Step("threshold", chain[0].layer if chain else layer, [base], shape, arrays=arrays)

    def _largest_sum(self, number):
        """Returns the largest possible sum of signs of a step."""
        step = self.steps[number]
        return step.attributes.get("fan_in") or sum(map(self._largest_sum, step.inputs))

    def select_steps(self, outputs: Sequence[int]) -> list[Step]:
        """Returns the steps that outputs depend on, renumbered, ending with the last output."""
        required = {0, *outputs}
        for number in range(max(outputs), 0, -1):
            if number in required:
                required.update(self.steps[number].inputs)
        numbers = {old: new for new, old in enumerate(sorted(required))}
        steps = [self.steps[old] for old in numbers]
        return [
            dataclasses.replace(step, inputs=[numbers[source] for source in step.inputs])
            for step in steps
        ]


def _is_monotone(step):
    has_rising_slopes = np.min(step.arrays.get("slopes", -1)) >= 0
    is_affine = step.op in ("affine", "divide")
    return has_rising_slopes or is_affine or step.attributes.get("function") in _MONOTONE


def find_thresholds(is_positive: Callable, channels: int, largest: int) -> tuple[Any, Any]:
    """Finds the integers at which a function changes its sign, by bisection.

    The function is called rather than its formula solved, because ties must round as they do in
    the model.

    Args:
        is_positive: Maps integers `(channels,)` to booleans, which change at most once per channel.
        channels: Number of channels.
        largest: Maximum magnitude of the sums.

    Returns:
        - thresholds `t`, `(channels,)`, from `-largest` to `largest`
        - flips `f`, `(channels,)` of `bool`: `is_positive(s)` equals `(s >= t) != f` for every
          integer `s` from `-largest` to `largest`

    Example:

    >>> import numpy as np
    >>> from dann.deployment.folding import find_thresholds
    >>> gamma, beta = np.array([2.0, -2.0, 0.0]), np.array([-3.0, -3.0, -3.0])
    >>> thresholds, flips = find_thresholds(lambda s: gamma * s + beta >= 0, 3, largest=9)
    >>> thresholds.tolist(), flips.tolist()
    ([2, -1, -9], [False, True, True])
    """
    low, high = np.full(channels, -largest), np.full(channels, largest)
    at_end = is_positive(high)
    # Invariant: from `high` on, the value is the value at the end. Below `low` it is the opposite,
    # except that a constant function ends with both at -largest.
    while (low < high).any():
        middle = (low + high) // 2
        is_end_value = is_positive(middle) == at_end
        high = np.where(is_end_value, middle, high)
        low = np.where(is_end_value, low, np.minimum(middle + 1, high))
    return high, ~at_end
