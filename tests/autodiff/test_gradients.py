"""Gradients against closed forms."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from maps import assert_close
from support.differentiate import as_array
from support.modes import parametrize_mode, run_in_mode

from dann.autodiff import batch_jacobian, gradients, hvp, jacobian, jvp

X = np.array([[-1.5, 0.0, 2.0], [0.5, 1.0, -3.0]], "float32")
Y = np.array([[2.0, 1.0, -1.0], [0.0, 4.0, 0.5]], "float32")


@parametrize_mode
def test_gradients_match_the_closed_form(mode):
    def differentiate(x, y):
        return gradients(lambda x, y: ops.sum(x**3 * y), [x, y])

    inputs = ops.convert_to_tensor(X), ops.convert_to_tensor(Y)
    x_gradient, y_gradient = run_in_mode(differentiate, mode)(*inputs)
    assert_close(x_gradient, 3 * X**2 * Y)
    assert_close(y_gradient, X**3)


@parametrize_mode
def test_gradients_can_be_differentiated_again(mode):
    def second(x):
        slope = lambda x: gradients(lambda x: ops.sum(x**3), [x])[0]  # noqa: E731
        return gradients(lambda x: slope(x) ** 2, [x])[0]

    assert_close(run_in_mode(second, mode)(ops.convert_to_tensor(X)), 36 * X**3)


def test_unconnected_argument_gets_zeros_or_none():
    def constant(x, y):
        return ops.sum(x)

    x_gradient, y_gradient = gradients(constant, [X, Y])
    assert_close(x_gradient, np.ones_like(X))
    assert_close(y_gradient, np.zeros_like(Y))
    if keras.backend.backend() == "jax":
        with pytest.raises(NotImplementedError, match="'none'"):
            gradients(constant, [X, Y], unconnected_gradients="none")
    else:
        assert gradients(constant, [X, Y], unconnected_gradients="none")[1] is None


@parametrize_mode
def test_upstream_gradients_weight_several_outputs(mode):
    def differentiate(x, u):
        return gradients(lambda x: {"b": ops.sum(x, axis=0), "a": x**2}, [x], [u, u[0]])[0]

    inputs = [ops.convert_to_tensor(value) for value in (X, Y)]
    assert_close(run_in_mode(differentiate, mode)(*inputs), 2 * X * Y + Y[0])
    assert_close(gradients(lambda x: [x**2, ops.sum(x)], [X])[0], 2 * X + 1)  # which are summed


@parametrize_mode
def test_variable_counts_as_argument_and_when_read(mode):
    # y = s w^T x, where the layer reads w and the function takes s = sum(w).
    layer = layers.Dense(1, use_bias=False)
    layer.build((None, 3))
    (w,) = layer.weights
    direction = np.array([[1.0], [2.0], [-1.0]], "float32")

    def differentiate(x):
        def take_and_read(value):
            return ops.sum(value) * ops.sum(layer(x))

        read = lambda value: ops.sum(layer(x))  # noqa: E731
        return (
            gradients(read, layer.weights),
            gradients(take_and_read, [w]),
            jvp(take_and_read, [w], [direction])[1],
            hvp(take_and_read, [w], [direction]),
            jacobian(read, [w]),
        )

    results = run_in_mode(differentiate, mode)(ops.convert_to_tensor(X))
    slope, value = X.sum(axis=0)[:, None], as_array(w.value)
    full = (slope * value).sum() + value.sum() * slope
    hessian_product = (slope * direction).sum() + direction.sum() * slope
    expected = slope, full, (full * direction).sum(), hessian_product, slope
    for result, array in zip(results, expected, strict=True):
        assert_close(keras.tree.flatten(result)[0], array, rtol=1e-4, atol=1e-5)


@pytest.mark.tensorflow
def test_loaded_recurrent_network_has_gradients(tmp_path):
    import tensorflow as tf

    model = keras.Sequential([keras.Input((3, 2)), layers.LSTM(4), layers.Dense(1)])
    model.export(tmp_path, verbose=False)
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(2, 3, 2)
    loaded = tf.saved_model.load(str(tmp_path))
    assert_close(gradients(loaded.serve, [x])[0], gradients(model, [x])[0])
    assert_close(gradients(lambda x: loaded.serve(x)[:, 0], [x])[0], batch_jacobian(model, x)[:, 0])


@pytest.mark.tensorflow
def test_every_kind_of_variable_is_watched():
    import tensorflow as tf

    fixed = keras.Variable([1.0, 2.0], trainable=False)
    for variable in (fixed, tf.Variable([1.0, 2.0], trainable=False)):
        compiled = tf.function(lambda v=variable: ops.sum(v * v), autograph=False)
        assert_close(gradients(lambda value, f=compiled: f(), [variable])[0], [2.0, 4.0])
