"""Runs programs with NumPy: the reference that other engines are compared with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dann.deployment.bits import count_bits, pack_bits, unpack_bits, unpack_signs, words_for
from dann.deployment.elementwise import ELEMENTWISE, as_floats
from dann.deployment.program import Program, Step
from dann.registry import Registry

ENGINES: Registry = Registry("engine")
Run = Callable[..., np.ndarray]


@ENGINES.register("numpy", summary="The reference: exclusive or and counts of bits, NumPy alone.")
class NumpyEngine:
    """Runs the steps of a program one after the other.

    Bits are words `(batch, ..., words)`. The sum of `n` products of signs is `n - 2 d`, where `d`
    counts the places in which their bits differ. A convolution first gathers the words of its
    windows.

    Args:
        program: The program to run.
        threads: Ignored: NumPy runs in one thread here. Defaults to `1`.
    """

    def __init__(self, program: Program, threads: int = 1):
        self.threads = threads
        self._steps = [(self._prepare(step), step.inputs) for step in program.steps[1:]]

    def __call__(self, inputs: np.ndarray, outputs: np.ndarray) -> None:
        """Writes the logits of a batch of `float32` into `outputs`."""
        values = [inputs]
        for run, numbers in self._steps:
            values.append(run(*(values[number] for number in numbers)))
        outputs[...] = values[-1]

    def _prepare(self, step: Step) -> Run:
        if step.op in ELEMENTWISE:
            return ELEMENTWISE[step.op](step)
        return getattr(self, f"_{step.op}")(step)

    def products(self, kernel: np.ndarray, size: int) -> Run:
        """Returns the function from rows of bits to their products with each row of a kernel.

        Args:
            kernel: Bits `(units, words)`.
            size: How many bits of a row count.

        Returns:
            A function from `(rows, words)` to `(rows, units)` of `int32`.
        """

        def run(rows):
            sums = np.empty((len(rows), len(kernel)), "int32")
            for row, sum_ in zip(rows, sums, strict=True):
                different = count_bits(row ^ kernel).sum(axis=-1, dtype="int32")
                np.subtract(size, 2 * different, out=sum_)
            return sums

        return run

    def _binary_dense(self, step):
        kernel = step.arrays["kernel_bits"].astype("uint64")
        run = self.products(kernel, step.attributes["fan_in"])
        return lambda bits: run(bits.reshape(-1, bits.shape[-1])).reshape(-1, *step.shape)

    def _binary_conv(self, step):
        attributes = step.attributes
        channels, taps = attributes["input_shape"][-1], int(np.prod(attributes["size"]))
        kernel = unpack_bits(step.arrays["kernel_bits"], taps * channels)
        kernel = kernel.reshape(-1, taps, channels)
        run = self.products(pack_bits(kernel).reshape(len(kernel), -1), taps * channels)
        border = pack_bits(np.full(channels, attributes["pad_value"] > 0))
        zeros = zeros_in_padding(kernel, attributes)

        def convolve(bits):
            view = windows(padded(bits, attributes["pads"], border), attributes)
            sums = run(view.reshape(-1, taps * words_for(channels)))
            sums = sums.reshape(-1, *step.shape)
            if zeros is not None:
                sums += zeros
            return sums

        return convolve

    def _dense(self, step):
        kernel = float_kernel(step, step.attributes["fan_in"])
        return _with_bias(step, lambda values: as_floats(values) @ kernel)

    def _conv(self, step):
        attributes = step.attributes
        groups, taps = attributes["groups"], int(np.prod(attributes["size"]))
        channels = attributes["input_shape"][-1] // groups
        kernel = float_kernel(step, taps * channels)
        grouped = kernel.reshape(taps, channels, groups, -1)

        def convolve(values):
            images = padded(as_floats(values), attributes["pads"], attributes["pad_value"])
            view = windows(images, attributes)
            if groups == 1:
                outputs = view.reshape(-1, taps * channels) @ kernel
            else:
                view = view.reshape(-1, taps, groups, channels)
                outputs = np.einsum("ntgc,tcgu->ngu", view, grouped, optimize=True)
            outputs = outputs.reshape(-1, *step.shape)
            return outputs.astype("int32") if step.kind == "int" else outputs

        return _with_bias(step, convolve)

    def _sign(self, step):
        return lambda values: pack_bits(values >= 0)

    def _threshold(self, step):
        thresholds = step.arrays["thresholds"].astype("int32")
        flips = step.arrays["flips"].astype("uint64")
        return lambda sums: pack_bits(sums >= thresholds) ^ flips

    def _signs(self, step):
        return lambda bits: unpack_signs(bits, step.shape[-1])

    def _max_pool(self, step):
        combine = np.bitwise_or if step.kind == "bits" else np.maximum
        # Below every value: words are unsigned, and no sum reaches the lowest int32.
        lowest = {"float": -np.inf, "int": np.iinfo("int32").min, "bits": 0}[step.kind]
        return lambda images: pooled(step, images, combine, lowest)

    def _average_pool(self, step):
        ones = np.ones((1, *step.attributes["input_shape"][:-1], 1), "float32")
        counts = pooled(step, ones, np.add, 0)
        return lambda images: pooled(step, as_floats(images), np.add, 0) / counts

    def _reshape(self, step):
        size = step.attributes["input_shape"][-1]
        if step.kind != "bits":
            return lambda values: values.reshape(-1, *step.shape)
        if size % 64 == 0 and step.shape[-1] % 64 == 0:
            return lambda bits: bits.reshape(-1, *step.shape[:-1], step.shape[-1] // 64)
        return lambda bits: pack_bits(unpack_bits(bits, size).reshape(-1, *step.shape))

    def _add(self, step):
        def run(*values):
            total = as_floats(values[0])
            for other in values[1:]:
                total = total + as_floats(other)
            return total

        return run


def float_kernel(step: Step, inputs: int) -> np.ndarray:
    """A kernel `(inputs, units)` of `float32`, from bits or from floats."""
    if "kernel" in step.arrays:
        return step.arrays["kernel"].reshape(inputs, -1).astype("float32")
    return np.ascontiguousarray(unpack_signs(step.arrays["kernel_bits"], inputs).T)


def _with_bias(step, run):
    if "bias" not in step.arrays:
        return run
    bias = step.arrays["bias"].astype("float32")
    return lambda values: run(values) + bias


def zeros_in_padding(kernel: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray | None:
    """What to add to the sums where padding counts as 0, because its bits stand for -1.

    Args:
        kernel: Whether each weight is +1, `(units, taps, channels)`.
        attributes: Those of the convolution.

    Returns:
        Sums `(*outputs, units)`, or `None` if there is nothing to add.
    """
    if attributes["pad_value"] or not np.any(attributes["pads"]):
        return None
    inside = np.ones((1, *attributes["input_shape"][:-1], 1), bool)
    outside = ~windows(padded(inside, attributes["pads"], False), attributes)
    outside = outside.reshape(*outside.shape[1 : inside.ndim - 1], -1)  # (*outputs, taps)
    of_taps = np.where(kernel, 1, -1).sum(axis=-1).T  # (taps, units)
    return (outside.astype("int32") @ of_taps).astype("int32")


def pooled(step: Step, images: np.ndarray, combine: np.ufunc, border: float) -> np.ndarray:
    """Combines the pixels of each window, with a border of one value around the images."""
    view = windows(padded(images, step.attributes["pads"], border), step.attributes)
    rank = images.ndim - 2
    # Tap by tap: several times faster than a reduction over short axes.
    taps = [view[(slice(None),) * (1 + rank) + tap] for tap in np.ndindex(*step.attributes["size"])]
    total = taps[0].copy()
    for tap in taps[1:]:
        combine(total, tap, out=total)
    return total


def padded(images: np.ndarray, pads: Sequence[Sequence[int]], values: Any) -> np.ndarray:
    """Images `(batch, *spatial, channels)` with a border of one value, or one for each channel."""
    if not any(map(any, pads)):
        return images
    axes = list(zip(images.shape[1:], pads, strict=False))
    lengths = [before + length + after for length, (before, after) in axes]
    whole = np.empty((images.shape[0], *lengths, images.shape[-1]), images.dtype)
    whole[...] = values
    inner = [slice(before, before + length) for length, (before, _) in axes]
    whole[(slice(None), *inner)] = images
    return whole


def windows(images: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """A view `(batch, *outputs, *size, channels)` of the windows of padded images."""
    size, strides, dilation = (attributes[name] for name in ("size", "strides", "dilation"))
    spatial, steps = images.shape[1:-1], images.strides[1:-1]
    outputs = [
        (length - (taps - 1) * rate - 1) // stride + 1
        for length, taps, stride, rate in zip(spatial, size, strides, dilation, strict=True)
    ]
    between = [step * stride for step, stride in zip(steps, strides, strict=True)]
    inside = [step * rate for step, rate in zip(steps, dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(
        images,
        (images.shape[0], *outputs, *size, images.shape[-1]),
        (images.strides[0], *between, *inside, images.strides[-1]),
        writeable=False,
    )
