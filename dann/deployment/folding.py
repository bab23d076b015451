"""Makes a program smaller: what only a sign depends on is decided on integers and bits."""

import dataclasses
from collections.abc import Sequence

from dann.deployment.bits import pack_bits
from dann.deployment.elementwise import ELEMENTWISE
from dann.deployment.lowering import Steps
from dann.deployment.program import Program, Step
from dann.deployment.thresholds import find_thresholds

# The sign of the largest is the largest sign; reshaping changes no value.
_COMMUTING = ("max_pool", "reshape")


def fold(program: Program) -> Program:
    """Returns a program of the same outputs, to the last bit, in which

    - batch normalization and whatever else never falls or never rises, between sums of signs and
      the next sign, is one integer threshold a channel
    - signs are taken before maxima and reshaping, which then work on bits
    - a sign of signs is not taken again, and steps that nothing depends on are gone
    """
    return _Folding(program.steps).program()


class _Folding:
    def __init__(self, steps: Sequence[Step]):
        self._old = steps
        self._new = Steps()
        self._known: dict[tuple[str, int], int] = {}

    def program(self):
        # All in their order, so that what a step takes is known: no recursion as deep as the net.
        for number, step in enumerate(self._old):
            if step.op == "input":
                self._known["values", number] = self._copy(step, ())
            last = self._values(number)
        return Program(_needed(self._new, last))

    def _copy(self, step, inputs, kind=None):
        attributes, shape = step.attributes, step.shape
        kind = kind or step.kind
        return self._new.emit(step.op, step.layer, inputs, shape, kind, attributes, **step.arrays)

    def _values(self, number):
        """The number of an old step's output among the new steps."""
        if ("values", number) not in self._known:
            step = self._old[number]
            if step.op == "sign":
                new = self._signs(step.inputs[0], step)
            else:
                new = self._copy(step, [self._values(one) for one in step.inputs])
            self._known["values", number] = new
        return self._known["values", number]

    def _signs(self, number, sign):
        """The number of the signs of an old step's output among the new steps."""
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
            return self._copy(step, [self._signs(step.inputs[0], sign)], "bits")
        return self._new.emit("sign", sign.layer, [self._values(number)], step.shape, "bits")

    def _chain(self, number):
        """Monotone steps channel by channel that end with a step, and the step before them."""
        chain, step = [], self._old[number]
        while _is_monotone(step):
            chain.insert(0, step)
            (number,) = step.inputs
            step = self._old[number]
        return chain, number

    def _threshold(self, chain, base, sign):
        functions = [ELEMENTWISE[step.op](step) for step in chain]

        def outputs(sums):
            for function in functions:
                sums = function(sums)
            return sums

        shape = self._old[base].shape
        thresholds, flips = find_thresholds(outputs, shape[-1], self._largest(base))
        layer = chain[0].layer if chain else sign.layer
        return self._new.emit(
            "threshold",
            layer,
            [self._values(base)],
            shape,
            "bits",
            thresholds=thresholds.astype("<i4"),
            flips=pack_bits(flips).astype("<u8"),
        )

    def _largest(self, number):
        """The greatest magnitude of sums: the number of signs that they are made of."""
        step = self._old[number]
        while "fan_in" not in step.attributes:
            (number,) = step.inputs
            step = self._old[number]
        return step.attributes["fan_in"]


def _needed(steps, last):
    """The steps up to the last one that it depends on, with their new numbers."""
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
