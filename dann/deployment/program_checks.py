"""Checks the inputs and outputs of every operation: engines run only consistent programs."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dann.deployment.bits import WORD, words_for
from dann.deployment.elementwise import FUNCTIONS
from dann.deployment.program import Program

_LARGEST = 2**31 - 1  # of any size
_MOST = 2**28  # values of an example, a gigabyte of floats


def check_program(program: Program) -> None:
    """Raises `ValueError` if the steps of a program do not fit together.

    They do not if a step lacks an attribute or an array, or has one that does not fit the sizes of
    its inputs and output; if its output has another shape or kind than it says; or if the last step
    gives bits.
    """
    steps = program.steps
    for number, step in enumerate(steps):
        given = [steps[place] for place in step.inputs]
        if (step.op == "input") != (number == 0) or not _is_shape(step.shape):
            raise _error(
                step,
                "one input, the first step, and shapes of whole numbers from 1 on, at most 2**28 "
                "values",
            )
        count = 0 if step.op == "input" else 1
        if len(given) != count and not (step.op == "add" and len(given) > 1):
            raise _error(step, f"{count} inputs")
        expected = _OUTPUTS[step.op](step, *given)
        if (tuple(step.shape), step.kind) != expected:
            raise _error(step, f"an output of shape {expected[0]} and kind {expected[1]}")
    if steps[-1].kind == "bits":
        raise _error(steps[-1], "numbers as the last output")


def _is_shape(shape):
    return bool(shape) and _are_whole(shape, 1) and math.prod(shape) <= _MOST


def _are_whole(values, least):
    """Whether all are integers in range; a `bool` or a whole float is not."""
    return all(type(value) is int and least <= value <= _LARGEST for value in values)


def _error(step, expected):
    return ValueError(
        f"Operation `{step.op}` of layer {step.layer!r} should have {expected}. Received: inputs "
        f"{list(step.inputs)}, output {list(step.shape)} of kind {step.kind}, attributes "
        f"{dict(step.attributes)}, arrays { {k: a.shape for k, a in step.arrays.items()} }"
    )


def _require(step, condition, expected):
    if not condition:
        raise _error(step, expected)


def _kinds(step, given, *kinds):
    _require(step, given.kind in kinds, f"an input of kind {' or '.join(kinds)}")


def _attribute(step, name, expected):
    """Checks one attribute, a whole number or a list of them."""
    value = step.attributes.get(name)
    whole = _are_whole(value if isinstance(value, list) else [value], 0)
    _require(step, whole and value == expected, f"{name}={expected}")


def _lengths(step, name, rank, least):
    """Checks an attribute that holds one whole number for each axis, and returns it."""
    values = step.attributes.get(name)
    good = isinstance(values, list) and len(values) == rank
    good = good and _are_whole(values, least)
    _require(step, good, f"{rank} whole numbers from {least} on for {name}")
    return values


def _array(step, name, *shapes):
    """Checks the shape of one array, if the step has it."""
    if name in step.arrays:
        _require(step, step.arrays[name].shape in shapes, f"{name} of shape {shapes[0]}")


def _bits(step, name, shape, size):
    """Checks an array of `size` bits in each row, whose last word is filled with zeros."""
    _array(step, name, shape)
    if name in step.arrays and size % WORD:
        rest = step.arrays[name][..., -1:] >> np.uint64(size % WORD)
        _require(step, not rest.any(), f"zeros after the {size} bits of each row of {name}")


def _of_channels(step, given, *names):
    _kinds(step, given, "float", "int")
    for name in names:
        _array(step, name, (given.shape[-1],), (1,))
    return tuple(given.shape), "float"


def _input(step):
    return tuple(step.shape), "float"


def _affine(step, given):
    return _of_channels(step, given, "scale", "offset")


def _prelu(step, given):
    _require(step, "slopes" in step.arrays, "slopes")
    return _of_channels(step, given, "slopes")


def _activation(step, given):
    name = step.attributes.get("function")
    _require(step, name in FUNCTIONS, f"one of the functions {', '.join(FUNCTIONS)}")
    return _of_channels(step, given)


def _units(step, window, inputs):
    """Checks the sizes of kernel and bias, and returns the number of outputs."""
    fan_in = math.prod(window) * inputs
    _attribute(step, "fan_in", fan_in)
    binary = "kernel_bits" in step.arrays
    _require(step, binary != ("kernel" in step.arrays), "one kernel")
    kernel = step.arrays["kernel_bits" if binary else "kernel"]
    units = kernel.shape[0 if binary else -1] if kernel.ndim else 0
    _bits(step, "kernel_bits", (units, words_for(fan_in)), fan_in)
    _array(step, "kernel", (*window, inputs, units))
    _array(step, "bias", (units,))
    return units


def _dense(step, given):
    _kinds(step, given, *(["bits"] if step.op == "binary_dense" else ["float", "int"]))
    units = _units(step, (), given.shape[-1])
    return (*given.shape[:-1], units), "int" if step.op == "binary_dense" else "float"


def _windows(step, given):
    """Checks the attributes of windows, and returns the shape of their places."""
    _attribute(step, "input_shape", list(given.shape))
    *spatial, _ = given.shape
    rank = len(spatial)
    _require(step, rank > 0, "images of one spatial axis or more")
    size, strides, dilation = (
        _lengths(step, name, rank, least=1) for name in ("size", "strides", "dilation")
    )
    pads = step.attributes.get("pads")
    good = isinstance(pads, list) and len(pads) == rank
    _require(step, good, f"pads before and after each of {rank} axes")
    places = []
    for length, taps, stride, rate, pad in zip(spatial, size, strides, dilation, pads, strict=True):
        reach = (taps - 1) * rate
        good = isinstance(pad, list) and len(pad) == 2
        good = good and _are_whole(pad, 0) and max(pad) <= reach
        _require(step, good, "pads before and after each axis, no wider than the window")
        room = length + sum(pad) - reach - 1
        _require(step, room >= 0, "a window that fits into the padded images")
        places.append(room // stride + 1)
    return tuple(places)


def _conv(step, given):
    places = _windows(step, given)
    groups, channels = step.attributes.get("groups"), given.shape[-1]
    good = _are_whole([groups], 1) and channels % groups == 0
    _require(step, good, f"groups that divide {channels} channels")
    _require(step, step.attributes.get("pad_value") in (-1, 0, 1), "a pad_value of -1, 0 or 1")
    units = _units(step, step.attributes["size"], channels // groups)
    _require(step, units % groups == 0, "groups that divide its outputs")
    if step.op == "binary_conv":
        _kinds(step, given, "bits")
        _require(step, groups == 1, "one group")
        return (*places, units), "int"
    _kinds(step, given, "float", "int")
    # Sums of signs, which are floats if there are groups.
    whole = step.kind == "int" and given.op == "signs" and set(step.arrays) == {"kernel_bits"}
    return (*places, units), "int" if whole else "float"


def _max_pool(step, given):
    return (*_windows(step, given), given.shape[-1]), given.kind


def _average_pool(step, given):
    _kinds(step, given, "float", "int")
    return (*_windows(step, given), given.shape[-1]), "float"


def _sign(step, given):
    _kinds(step, given, "float", "int")
    return tuple(given.shape), "bits"


def _threshold(step, given):
    _kinds(step, given, "int")
    channels = given.shape[-1]
    _require(step, len(step.arrays) == 2, "thresholds and flips")
    _array(step, "thresholds", (channels,))
    _bits(step, "flips", (words_for(channels),), channels)
    return tuple(given.shape), "bits"


def _signs(step, given):
    _kinds(step, given, "bits")
    return tuple(given.shape), "float"


def _reshape(step, given):
    _attribute(step, "input_shape", list(given.shape))
    _require(step, math.prod(step.shape) == math.prod(given.shape), "as many values as its input")
    return tuple(step.shape), given.kind


def _add(step, *given):
    for one in given:
        _kinds(step, one, "float", "int")
        _require(step, tuple(one.shape) == tuple(given[0].shape), "inputs of one shape")
    return tuple(given[0].shape), "float"


# The shape and kind of a step's output, from the step and its inputs' steps.
_OUTPUTS: Mapping[str, Callable[..., Any]] = {
    "input": _input,
    "affine": _affine,
    "activation": _activation,
    "prelu": _prelu,
    "dense": _dense,
    "conv": _conv,
    "binary_dense": _dense,
    "binary_conv": _conv,
    "sign": _sign,
    "threshold": _threshold,
    "signs": _signs,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "reshape": _reshape,
    "add": _add,
}
