"""The functions under test, each beside its closed form in NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from dann.gradients import binary_sign, reverse_gradient
from dann.layers import BinarySign, GradientReversal

STRENGTH = 0.7
INPUTS = np.array(
    [[-2.0, -1.0, -0.5], [-0.0, 0.0, 0.5], [1.0, 2.0, -1.5], [0.25, -0.25, 1.25]], "float32"
)
WEIGHTS = np.array(
    [[0.3, -0.2, 0.5], [0.4, -0.5, 0.1], [-0.4, 0.2, 0.3], [0.1, 0.6, -0.3]], "float32"
)


@dataclass(frozen=True)
class Construction:
    """A function, the Keras layer around it, and what both must give."""

    function: Callable
    make_layer: Callable
    expected_value: Callable
    expected_slope: Callable

    @property
    def value(self) -> np.ndarray:
        return self.expected_value(INPUTS)

    @property
    def slope(self) -> np.ndarray:
        """What stands for the derivative of each output with respect to its input."""
        return self.expected_slope(INPUTS)

    @property
    def gradient(self) -> np.ndarray:
        """Of `loss`: the slope times `dL/dy = w (1 + y)`."""
        return self.slope * WEIGHTS * (1.0 + self.value)

    @property
    def second_gradient(self) -> np.ndarray:
        """Of the sum of `gradient`: the slope twice, times `d2L/dy2 = w`."""
        return self.slope**2 * WEIGHTS


def loss(outputs, weights=WEIGHTS):
    return tf.reduce_sum(weights * (outputs + outputs**2 / 2.0))


def same(inputs):
    return inputs


def two_valued(inputs):
    return np.where(inputs >= 0, 1.0, -1.0)


def minus_strength(inputs):
    return np.full(inputs.shape, -STRENGTH)


def htanh_slope(inputs):
    return np.where(np.abs(inputs) <= 1, 1.0, 0.0)


def reversal_by(way: str) -> Construction:
    return Construction(
        partial(reverse_gradient, strength=STRENGTH, way=way),
        partial(GradientReversal, STRENGTH, way=way),
        same,
        minus_strength,
    )


def sign_by(way: str) -> Construction:
    return Construction(
        partial(binary_sign, way=way), partial(BinarySign, way), two_valued, htanh_slope
    )


CONSTRUCTIONS = {"reverse_gradient": reversal_by, "binary_sign": sign_by}


@tf.RegisterGradient("NaiveReversal")
def _naive_reversal_gradient(op, upstream):
    return -STRENGTH * upstream


@tf.RegisterGradient("NaiveSign")
def _naive_sign_gradient(op, upstream):
    return tf.where(tf.abs(op.inputs[0]) <= 1.0, upstream, tf.zeros_like(upstream))


def naive(operation: Callable, op_type: str, gradient: str) -> Callable:
    """Way 1 as TensorFlow 1 spelled it, with no graph of its own."""

    def function(inputs):
        with tf.compat.v1.get_default_graph().gradient_override_map({op_type: gradient}):
            return operation(inputs)

    return function


def _naive_construction(operation, op_type, gradient, value, slope):
    function = naive(operation, op_type, gradient)
    return Construction(function, lambda: CallLayer(function), value, slope)


class CallLayer(keras.layers.Layer):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, inputs):
        return self.function(inputs)


def two_valued_sign(inputs):
    signs = tf.sign(inputs)
    return signs + tf.stop_gradient(1.0 - tf.abs(signs))


NAIVE_CONSTRUCTIONS = {
    "reverse_gradient": _naive_construction(
        tf.identity, "Identity", "NaiveReversal", same, minus_strength
    ),
    "binary_sign": _naive_construction(
        two_valued_sign, "Sign", "NaiveSign", two_valued, htanh_slope
    ),
}
