"""Gradients of scalars against closed forms."""

import keras
import numpy as np
import pytest
from keras import ops

from dann.autodiff import gradients

X = np.array([[-1.5, 0.0, 2.0], [0.5, 1.0, -3.0]], "float32")
Y = np.array([[2.0, 1.0, -1.0], [0.0, 4.0, 0.5]], "float32")


def in_mode(function, mode):
    if mode == "eager":
        return function
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=mode == "xla")


each_mode = pytest.mark.parametrize("mode", ["eager", "graph", "xla"])


@each_mode
def test_they_match_the_closed_form_in_every_argument(mode):
    def both(x, y):
        return gradients(lambda x, y: ops.sum(x**3 * y), [x, y])

    of_x, of_y = in_mode(both, mode)(ops.convert_to_tensor(X), ops.convert_to_tensor(Y))
    np.testing.assert_allclose(of_x, 3 * X**2 * Y, rtol=1e-6)
    np.testing.assert_allclose(of_y, X**3, rtol=1e-6)


@each_mode
def test_they_can_be_differentiated_again(mode):
    def squared_slope(x):
        (slope,) = gradients(lambda x: ops.sum(x**3), [x])  # 3 x^2
        return ops.sum(slope**2)

    def second(x):
        return gradients(squared_slope, [x])[0]

    np.testing.assert_allclose(
        in_mode(second, mode)(ops.convert_to_tensor(X)), 36 * X**3, rtol=1e-5
    )


def test_an_argument_that_does_not_matter_has_zeros():
    of_x, of_y = gradients(lambda x, y: ops.sum(x), [X, Y])
    np.testing.assert_array_equal(of_x, np.ones_like(X))
    np.testing.assert_array_equal(of_y, np.zeros_like(Y))
