"""Runs programs with TensorFlow, the binary steps under XLA."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError(
        "Engine 'tensorflow' needs TensorFlow; engine 'numpy' needs nothing more. "
        f"Received: {error}"
    ) from error

from dann.deployment.bits import WORD, pack_bits, unpack_bits, words_for
from dann.deployment.elementwise import scaled_and_shifted
from dann.deployment.engines.numpy_engine import float_kernel, zeros_in_padding
from dann.deployment.program import Program

_UNROLLED = 16  # words
_PLACES = tf.constant(np.arange(WORD), tf.uint64)


class TensorFlowEngine:
    """Computes the steps of a program in one TensorFlow function.

    Signs are words of `uint64`, as in the other engines, and are made and used inside functions
    that XLA compiles. What is float stays outside, so that it rounds as the model itself does.
    Each size of batch is compiled once.

    Args:
        program: What to compute.
        threads: Not used here; TensorFlow has its own settings.
    """

    def __init__(self, program: Program, threads: int = 1):
        self.threads = threads
        runs = [(getattr(self, f"_{step.op}")(step), step.inputs) for step in program.steps[1:]]

        def compute(inputs):
            values = [inputs]
            for run, numbers in runs:
                values.append(run(*(values[number] for number in numbers)))
            return values[-1]

        self._compute = tf.function(compute, autograph=False)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the logits of a batch of `float32`."""
        return self._compute(tf.constant(inputs)).numpy()

    def _binary_dense(self, step):
        kernel = step.arrays["kernel_bits"].astype("uint64")
        size = step.attributes["fan_in"]
        return _compiled(lambda bits: _products(bits, kernel, size))

    def _binary_conv(self, step):
        attributes = step.attributes
        channels, taps = attributes["input_shape"][-1], int(np.prod(attributes["size"]))
        signs = unpack_bits(step.arrays["kernel_bits"], taps * channels)
        signs = signs.reshape(-1, taps, channels)
        kernel = pack_bits(signs).reshape(len(signs), -1)
        border = pack_bits(np.full(channels, attributes["pad_value"] > 0))
        zeros = zeros_in_padding(signs, attributes)

        def run(bits):
            images = _padded(bits, attributes["pads"], border)
            sums = _products(_windows(images, step, -1), kernel, taps * channels)
            return sums if zeros is None else sums + zeros

        return _compiled(run)

    def _dense(self, step):
        kernel = tf.constant(float_kernel(step, step.attributes["fan_in"]))
        return _with_bias(step, lambda values: tf.linalg.matmul(_as_floats(values), kernel))

    def _conv(self, step):
        attributes = step.attributes
        groups, size = attributes["groups"], attributes["size"]
        channels = attributes["input_shape"][-1] // groups
        kernel = float_kernel(step, int(np.prod(size)) * channels)
        kernel = tf.constant(kernel.reshape(*size, channels, -1))
        border = np.full(groups * channels, attributes["pad_value"], "float32")

        def run(values):
            images = _padded(_as_floats(values), attributes["pads"], border)
            outputs = _convolution(images, kernel, attributes)
            return tf.cast(outputs, tf.int32) if step.kind == "int" else outputs

        return _with_bias(step, run)

    def _affine(self, step):
        arrays = {name: tf.constant(array) for name, array in step.arrays.items()}
        return lambda values: scaled_and_shifted(_as_floats(values), arrays)

    def _prelu(self, step):
        slopes = tf.constant(step.arrays["slopes"])

        def run(values):
            values = _as_floats(values)
            return tf.where(values > 0, values, values * slopes)

        return run

    def _activation(self, step):
        function = getattr(tf.nn, step.attributes["function"])
        return lambda values: function(_as_floats(values))

    def _sign(self, step):
        return _compiled(lambda values: _packed(values >= 0))

    def _threshold(self, step):
        thresholds = tf.constant(step.arrays["thresholds"].astype("int32"))
        flips = tf.constant(unpack_bits(step.arrays["flips"], step.shape[-1]))
        return _compiled(lambda sums: _packed((sums >= thresholds) != flips))

    def _signs(self, step):
        size = step.shape[-1]
        return _compiled(lambda bits: tf.where(_unpacked(bits, size), 1.0, -1.0))

    def _max_pool(self, step):
        kinds = {"float": -np.inf, "int": np.iinfo("int32").min, "bits": 0}
        lowest = np.array([kinds[step.kind]]).astype(_TYPES[step.kind])
        combine = tf.bitwise.bitwise_or if step.kind == "bits" else tf.maximum
        return _compiled(lambda images: _pooled(images, step, combine, lowest))

    def _average_pool(self, step):
        ones = np.ones((1, *step.attributes["input_shape"][:-1], 1), "float32")
        zero = np.zeros(1, "float32")
        counts = _pooled(ones, step, tf.add, zero)
        return lambda images: _pooled(_as_floats(images), step, tf.add, zero) / counts

    def _reshape(self, step):
        size = step.attributes["input_shape"][-1]
        if step.kind != "bits":
            return lambda values: tf.reshape(values, (-1, *step.shape))
        return _compiled(lambda bits: _packed(tf.reshape(_unpacked(bits, size), (-1, *step.shape))))

    def _add(self, step):
        return lambda *values: sum(map(_as_floats, values[1:]), _as_floats(values[0]))


_TYPES = {"float": "float32", "int": "int32", "bits": "uint64"}


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, jit_compile=True, autograph=False)


def _as_floats(values):
    return tf.cast(values, tf.float32)


def _products(bits, kernel, size):
    """Products of rows of bits `(..., words)` with each row of a kernel `(units, words)`."""
    units, words = kernel.shape
    size_of_group = min(words, _UNROLLED)
    rest = -words % size_of_group
    # (groups, words of a group, units): XLA puts the units side by side into vector registers.
    kernel = np.pad(kernel, [[0, 0], [0, rest]]).T.reshape(-1, size_of_group, units)
    groups = tf.constant(np.ascontiguousarray(kernel))
    bits = tf.pad(bits, [[0, 0]] * (bits.shape.rank - 1) + [[0, rest]])
    outer = tf.shape(bits)[:-1]
    grouped: Any = tf.reshape(bits, tf.concat([outer, [len(kernel), size_of_group]], 0))

    def count(group, different):
        for place in range(size_of_group):
            words = tf.bitwise.bitwise_xor(grouped[..., group, place, None], groups[group, place])
            different += tf.cast(tf.raw_ops.PopulationCount(x=words), tf.int32)
        return group + 1, different

    different = tf.zeros(tf.concat([outer, [units]], 0), tf.int32)
    if len(kernel) == 1:
        _, different = count(0, different)
    else:
        unfinished = partial(_is_below, len(kernel))
        _, different = tf.while_loop(unfinished, count, [0, different])
    return size - 2 * different


def _is_below(end, group, _):
    return group < end


def _packed(positive):
    """See `dann.deployment.bits.pack_bits`."""
    size = positive.shape[-1]
    rest = [[0, 0]] * (positive.shape.rank - 1) + [[0, -size % WORD]]
    whole = tf.pad(tf.cast(positive, tf.uint64), rest)
    shape = tf.concat([tf.shape(positive)[:-1], [words_for(size), WORD]], 0)
    # No two have a bit in common, so that the sum joins them.
    return tf.reduce_sum(tf.bitwise.left_shift(tf.reshape(whole, shape), _PLACES), axis=-1)


def _unpacked(bits, size):
    """See `dann.deployment.bits.unpack_bits`."""
    places = tf.bitwise.right_shift(bits[..., None], _PLACES)
    shape = tf.concat([tf.shape(bits)[:-1], [bits.shape[-1] * WORD]], 0)
    ones = tf.bitwise.bitwise_and(places, tf.constant(1, tf.uint64))
    whole: Any = tf.reshape(tf.cast(ones, tf.bool), shape)
    return whole[..., :size]


def _padded(images, pads, border):
    """See `dann.deployment.windows.padded`; a border's values may differ between channels."""
    for axis, (before, after) in enumerate(pads, start=1):
        for width, first in ((before, True), (after, False)):
            if width:
                shape = tf.concat(
                    [tf.shape(images)[:axis], [width], tf.shape(images)[axis + 1 :]], 0
                )
                beside = tf.broadcast_to(tf.constant(border), shape)
                images = tf.concat([beside, images] if first else [images, beside], axis)
    return images


def _windows(images, step, axis):
    """The windows of images: their taps one after the other along an axis."""
    return tf.concat(list(_taps(images, step)), axis)


def _taps(images, step):
    """What lies under each tap of all windows: `(batch, *outputs, channels)`."""
    attributes = step.attributes
    outputs = step.shape[:-1]
    for tap in np.ndindex(*attributes["size"]):
        slices = [slice(None)]
        for at, rate, stride, count in zip(
            tap, attributes["dilation"], attributes["strides"], outputs, strict=True
        ):
            begin = at * rate
            slices.append(slice(begin, begin + (count - 1) * stride + 1, stride))
        yield images[(*slices, slice(None))]


def _pooled(images, step, combine, border):
    taps = list(_taps(_padded(images, step.attributes["pads"], border), step))
    total = taps[0]
    for tap in taps[1:]:
        total = combine(total, tap)
    return total


def _convolution(images, kernel, attributes):
    # Two-dimensional at least, which is what the processor's kernels take.
    flat = len(attributes["size"]) == 1
    if flat:
        images, kernel = images[:, None], kernel[None]
    ones = [1] if flat else []
    convolve = partial(
        tf.nn.convolution,
        strides=ones + list(attributes["strides"]),
        dilations=ones + list(attributes["dilation"]),
    )
    groups = attributes["groups"]
    if len(attributes["size"]) < 3 or groups == 1:
        outputs = convolve(images, kernel)
        return outputs[:, 0] if flat else outputs
    # The processor has no kernel for groups of volumes.
    split = zip(tf.split(images, groups, -1), tf.split(kernel, groups, -1), strict=True)
    return tf.concat([convolve(*group) for group in split], -1)


def _with_bias(step, run):
    if "bias" not in step.arrays:
        return run
    bias = tf.constant(step.arrays["bias"])
    return lambda values: run(values) + bias
