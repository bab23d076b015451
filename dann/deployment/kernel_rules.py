"""Rules of the layers that have kernels or quantize: sums of products of signs or floats."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from dann.deployment.folding import find_thresholds
from dann.deployment.tracing import Call
from dann.layers.binary_layer import BinaryLayer

_MAX_ORDER = 0x7F000000  # the number of normal float32 numbers above 0


def as_array(values: Any) -> np.ndarray:
    """Returns a tensor as `float32` in the byte order of packed files."""
    return np.asarray(ops.convert_to_numpy(values), "<f4")


def _to_floats(order):
    """Maps an integer `i` to the `i`-th normal `float32` above 0, and `-i` to minus this number."""
    # The bit pattern of a float above 0 grows with its value; subnormal numbers are left out.
    bits = (np.abs(order) + 0x7FFFFF).astype("uint32")
    return (np.sign(order) * bits.view("float32")).astype("float32")


def _add_planes(call, number, layer):
    """Adds one sign step per level boundary of a quantizer (bit planes).

    For levels `l_0 < ... < l_n` with equal steps `d`, plane `k` is +1 where the level is at
    least `l_k`, and -1 elsewhere. The level is `(l_0 + l_n) / 2` plus `d / 2` times the sum of the
    planes.

    Args:
        call: The call of a layer.
        number: Number of the step to quantize.
        layer: The `BinarySign` whose estimator quantizes it.

    Returns:
        The levels, and the numbers of the planes.
    """

    def quantize(order):
        return as_array(layer.estimator(ops.convert_to_tensor(_to_floats(order))))

    samples = quantize(np.linspace(-_MAX_ORDER, _MAX_ORDER, 2**16 + 1).astype("int64"))
    levels, is_rising = np.unique(samples), (np.diff(samples) >= 0).all()
    is_even = 1 < len(levels) < 5 and np.allclose(np.diff(levels), levels[1] - levels[0])
    is_packable = is_rising and is_even and not layer.estimator.depends_on_batch
    call.require(is_packable, "quantize its inputs to 2, 3 or 4 rising levels", layer.estimator)
    # Bisection over all float32 numbers needs integers that sort like floats.
    starts, _ = find_thresholds(
        lambda order: quantize(order) >= levels[1:], len(levels) - 1, _MAX_ORDER
    )
    planes, shape = [], call.program.steps[number].shape
    for start in _to_floats(starts):
        offset = as_array([-start])
        shifted = call.add("affine", number, shape=shape, offset=offset) if start else number
        planes.append(call.program.add_signs(shifted, call.name))
    return levels, planes


def _add_sum(call, terms, factor, offset):
    """Adds the sum of outputs, times a factor, plus an offset."""
    number = call.add("add", *terms) if len(terms) > 1 else terms[0]
    if factor == 1 and not np.any(offset):
        return number
    scale, offset = as_array([factor]), as_array(offset).reshape(-1)
    return call.add("affine", number, scale=scale, offset=offset)


def quantize_output(call: Call, number: int) -> int:
    """Adds the quantized output of a step, for a call of `BinarySign` or `RSign`."""
    levels, planes = _add_planes(call, number, call.layer)
    signs = [call.add("signs", plane) for plane in planes]
    return _add_sum(call, signs, (levels[1] - levels[0]) / 2, (levels[0] + levels[-1]) / 2)


def get_windows(
    shape: Sequence[int],
    size: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: str,
) -> dict[str, Any]:
    """Returns the attributes of the windows that a convolution or a pooling moves over an image.

    With "same" padding there are `ceil(length / stride)` windows along an axis. The border is split
    into halves; an odd pixel goes to the end.

    Args:
        shape: Shape of the image, channels last, without the batch.
        size: Size of the windows along each axis.
        strides: Distance between windows along each axis.
        dilation: Distance between the pixels of a window along each axis.
        padding: `"valid"`, `"same"` or `"causal"`.
    """
    pads = []  # (before, after) along each axis
    for length, taps, stride, rate in zip(shape[:-1], size, strides, dilation, strict=True):
        reach = (taps - 1) * rate
        border = max((-(-length // stride) - 1) * stride + reach + 1 - length, 0)
        halves = [border // 2, -(-border // 2)]
        pads.append({"valid": [0, 0], "causal": [reach, 0], "same": halves}[padding])
    lists = {"size": size, "strides": strides, "dilation": dilation, "pads": pads}
    return {name: list(values) for name, values in lists.items()}


def add_kernel_products(call: Call) -> int:
    """Adds a dense layer or a convolution, of floats or of signs.

    A kernel with more than two levels is the mean of kernels of signs, and inputs with more than
    two levels are the sum of their planes. So the layer is a sum of products of signs.
    """
    layer, arrays = call.layer, {"offset": call.layer.bias}
    kernel = as_array(layer.binary_kernel() if isinstance(layer, BinaryLayer) else layer.kernel)
    if hasattr(layer, "depth_multiplier"):  # a depthwise convolution: each channel is a group
        kernel = kernel.reshape(*kernel.shape[:-2], 1, -1)
    border = getattr(layer, "pad_values", 0.0)
    kernels, inputs, factor, offset = [kernel], [(call.inputs[0], border)], 1.0, 0.0
    if isinstance(layer, BinaryLayer):
        kernels, arrays["scale"] = _split_kernel(call, kernel), layer.kernel_scale()
        if layer.input_sign is not None:
            levels, planes = _add_planes(call, call.inputs[0], layer.input_sign)
            # level = middle + factor * sum(planes), so the middle adds a constant per unit.
            middle = (levels[0] + levels[-1]) / 2
            is_valid = getattr(layer, "padding", "valid") == "valid"
            has_level = is_valid or border in (middle, *levels)
            call.require(has_level, "pad with one of the levels of its inputs", border)
            inputs = [
                (plane, 0.0 if border == middle else 1.0 if border >= level else -1.0)
                for plane, level in zip(planes, levels[1:], strict=True)
            ]
            factor = (levels[1] - levels[0]) / 2
            offset = middle * kernel.sum(axis=tuple(range(kernel.ndim - 1)))
    pairs = itertools.product(inputs, kernels)
    products = [_add_product(call, *source, kernel) for source, kernel in pairs]
    number = _add_sum(call, products, factor / len(kernels), offset)
    arrays = {name: as_array(array).ravel() for name, array in arrays.items() if array is not None}
    number = call.add("affine", number, **arrays) if arrays else number
    return call.add_activation(number, layer.activation)


def _split_kernel(call, kernel):
    """Returns at most three kernels of signs whose mean is a kernel."""
    codes = (kernel + 1) / 2  # in [0, 1]; n kernels of signs represent multiples of 1 / n
    counts = [n for n in (1, 2, 3) if np.allclose(n * codes, np.rint(n * codes))]
    is_even = counts and np.abs(kernel).max() <= 1
    call.require(is_even, "have a kernel of at most 4 even levels", call.layer.kernel_quantizer)
    bounds = np.arange(counts[0]) + 0.5
    return [np.where(counts[0] * codes > bound, 1, -1).astype("int8") for bound in bounds]


def _add_product(call, number, border, kernel):
    layer, source, attributes = call.layer, call.program.steps[number], {}
    if hasattr(layer, "kernel_size"):
        groups = source.shape[-1] // kernel.shape[-2]
        geometry = (layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)
        attributes = get_windows(source.shape, *geometry)
        attributes |= {"groups": groups, "pad_value": border}
    op = "conv" if attributes else "dense"
    op = f"binary_{op}" if source.kind == "bits" else op
    attributes["fan_in"] = math.prod(kernel.shape[:-1])
    return call.add(op, number, attributes=attributes, kernel=kernel)
