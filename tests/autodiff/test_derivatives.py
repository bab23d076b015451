"""Gradients, and products with Jacobians and Hessians, against closed forms and differences."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, WEIGHTS, assert_close, curved, linear
from support.differentiate import as_array, parametrize_mode, run_in_mode

from dann.autodiff import batch_jacobian, gradients, hvp, jacobian, jvp, vjp
from dann.gradients import binary_sign, reverse_gradient

X = np.array([[-1.5, 0.0, 2.0], [0.5, 1.0, -3.0]], "float32")
Y = np.array([[2.0, 1.0, -1.0], [0.0, 4.0, 0.5]], "float32")


RNG = np.random.default_rng(1)
U = RNG.normal(size=(3, 5)).astype("float32")
V = RNG.normal(size=(3, 4)).astype("float32")


def check(differentiate, inputs, expected, mode, rtol=1e-5, atol=1e-6):
    """Compares all tensors that a function of tensors returns in a mode."""
    tensors = [ops.convert_to_tensor(value) for value in inputs]
    results = keras.tree.flatten(run_in_mode(differentiate, mode)(*tensors))
    for result, array in zip(results, expected, strict=True):
        assert_close(result, array, rtol, atol)


@parametrize_mode
def test_gradients_match_the_closed_form(mode):
    def differentiate(x, y):
        slope = lambda x: gradients(lambda x: ops.sum(x**3), [x])[0]  # noqa: E731
        return [
            gradients(lambda x, y: ops.sum(x**3 * y), [x, y]),
            gradients(lambda x: slope(x) ** 2, [x]),
            gradients(lambda x: {"b": ops.sum(x, axis=0), "a": x**2}, [x], [y, y[0]]),
            gradients(lambda x: [x**2, ops.sum(x)], [x]),  # which are summed
        ]

    expected = 3 * X**2 * Y, X**3, 36 * X**3, 2 * X * Y + Y[0], 2 * X + 1
    check(differentiate, [X, Y], expected, mode)


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
            jacobian(read, w),
        )

    slope, value = X.sum(axis=0)[:, None], as_array(w.value)
    full = (slope * value).sum() + value.sum() * slope
    hessian_product = (slope * direction).sum() + direction.sum() * slope
    expected = slope, full, (full * direction).sum(), hessian_product, slope
    check(differentiate, [X], expected, mode, 1e-4, 1e-5)


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


@parametrize_mode
def test_products_and_jacobians_match_differences(mode):
    def products(x, u, v):
        linear_jacobian = jacobian(linear, x)
        return vjp(curved, [x], [u]), jvp(curved, [x], [v]), linear_jacobian, jacobian(curved, x)

    outputs, examples = as_array(curved(INPUTS)), np.eye(3)
    pulled = np.einsum("boi,bo->bi", CURVED_JACOBIAN, U)
    pushed = np.einsum("boi,bi->bo", CURVED_JACOBIAN, V)
    linear_jacobian = np.einsum("ab,io->aobi", examples, WEIGHTS)
    curved_jacobian = np.einsum("ab,aoi->aobi", examples, CURVED_JACOBIAN)
    expected = outputs, pulled, outputs, pushed, linear_jacobian, curved_jacobian
    check(products, [INPUTS, U, V], expected, mode, 1e-4, 1e-5)


@parametrize_mode
def test_products_follow_custom_backward_passes(mode):
    def products(x, v):
        reverse = lambda x: reverse_gradient(x, strength=0.5)  # noqa: E731
        return [
            product
            for function in (reverse, binary_sign)
            for product in (jvp(function, [x], [v])[1], vjp(function, [x], [v])[1][0])
        ]

    upstream = RNG.normal(size=EDGES.shape).astype("float32")
    expected = [slope * upstream for slope in (-0.5, -0.5, EDGES_PASS, EDGES_PASS)]
    check(products, [EDGES, upstream], expected, mode)


@parametrize_mode
def test_hessian_products_match_the_closed_form(mode):
    def products(x, y, v, w):
        return hvp(lambda x, y: ops.sum(x**3 * y), [x, y], [v, w])

    x, y, v, w = RNG.normal(size=(4, 2, 3)).astype("float32")
    expected = 6 * x * y * v + 3 * x**2 * w, 3 * x**2 * v
    check(products, [x, y, v, w], expected, mode, 1e-4, 1e-5)


@parametrize_mode
def test_tensor_passed_twice_counts_as_two_arguments(mode):
    def products(x, v):
        zeros = ops.zeros_like(v)
        _, pulled = vjp(lambda a, b: a * b, [x, x], [v])
        _, pushed = jvp(lambda a, b: a * b, [x, x], [v, zeros])
        hessian_product = hvp(lambda a, b: ops.sum(a * b), [x, x], [v, zeros])
        partial = gradients(lambda a, b: a**2 * b, [x, x], stop_gradients=[0])
        return pulled, pushed, hessian_product, jacobian(lambda a: ops.sum(a * x), x), partial

    zeros, product = np.zeros_like(V), INPUTS * V
    expected = product, product, product, zeros, V, INPUTS, zeros, INPUTS**2
    check(products, [INPUTS, V], expected, mode)


def test_jacobian_across_examples_and_of_a_constant():
    assert_close(jacobian(lambda x: x - ops.mean(x, axis=0), INPUTS[:, 0]), np.eye(3) - 1 / 3)
    assert_close(jacobian(lambda x: ops.ones((2,)), INPUTS), np.zeros((2, 3, 4)))


def test_jacobians_by_several_arguments_are_a_list():
    x_jacobian, y_jacobian = jacobian(lambda x, y: ops.sum(x * y, axis=1), [INPUTS, V])
    assert_close(ops.einsum("aai->ai", x_jacobian), V)
    assert_close(ops.einsum("aai->ai", y_jacobian), INPUTS)


@pytest.mark.tensorflow
def test_jacobian_of_an_unknown_batch_size():
    import tensorflow as tf

    signature = [tf.TensorSpec([None, 4])]
    traced = tf.function(lambda x: jacobian(lambda x: x**2, x), input_signature=signature)
    for x in (INPUTS, INPUTS[:1]):
        slopes = (2 * x[..., None] * np.eye(4))[:, :, None] * np.eye(len(x))[:, None, :, None]
        assert_close(traced(x), slopes)
