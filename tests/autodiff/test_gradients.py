"""Gradients against closed forms, and what is refused before it goes wrong."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from support.differentiate import as_array
from support.modes import each_mode, in_mode

from dann.autodiff import gradients

X = np.array([[-1.5, 0.0, 2.0], [0.5, 1.0, -3.0]], "float32")
Y = np.array([[2.0, 1.0, -1.0], [0.0, 4.0, 0.5]], "float32")


@each_mode
def test_gradients_match_the_closed_form_for_every_argument(mode):
    def both(x, y):
        return gradients(lambda x, y: ops.sum(x**3 * y), [x, y])

    of_x, of_y = in_mode(both, mode)(ops.convert_to_tensor(X), ops.convert_to_tensor(Y))
    np.testing.assert_allclose(of_x, 3 * X**2 * Y, rtol=1e-6)
    np.testing.assert_allclose(of_y, X**3, rtol=1e-6)


@each_mode
def test_gradients_can_be_differentiated_again(mode):
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


@each_mode
def test_several_outputs_are_weighted_by_their_upstream_gradients(mode):
    def both(x, u):
        return gradients(lambda x: {"b": ops.sum(x, axis=0), "a": x**2}, [x], [u, u[0]])[0]

    inputs = [ops.convert_to_tensor(value) for value in (X, Y)]
    np.testing.assert_allclose(in_mode(both, mode)(*inputs), 2 * X * Y + Y[0], rtol=1e-6)


def test_without_upstream_gradients_the_outputs_are_summed():
    (of_x,) = gradients(lambda x: [x**2, ops.sum(x)], [X])
    np.testing.assert_allclose(as_array(of_x), 2 * X + 1, rtol=1e-6)


def test_a_constant_argument_is_unconnected():
    of_x, of_y = gradients(lambda x, y: ops.sum(x * y), [X, Y], stop_gradients=[0])
    np.testing.assert_array_equal(of_x, np.zeros_like(X))
    np.testing.assert_array_equal(of_y, X)


@each_mode
def test_a_tensor_given_twice_counts_as_two_arguments(mode):
    def every(x):
        of_both = gradients(lambda a, b: a * b, [x, x])
        of_second = gradients(lambda a, b: a**2 * b, [x, x], stop_gradients=[0])
        return *of_both, *of_second, *gradients(lambda a: a * x, [x])

    first, second, stopped, other, own = in_mode(every, mode)(ops.convert_to_tensor(X))
    for gradient in (first, second, own):
        np.testing.assert_array_equal(gradient, X)
    np.testing.assert_array_equal(stopped, np.zeros_like(X))
    np.testing.assert_allclose(other, X**2, rtol=1e-6)


def test_a_model_is_called_in_inference_mode():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5)])
    np.testing.assert_array_equal(gradients(model, [X])[0], np.ones_like(X))


def test_a_model_of_several_inputs_takes_them_together():
    class Product(keras.Model):
        def call(self, inputs):
            return inputs[0] * inputs[1]

    class Separate(keras.Model):
        def call(self, a, b, scale=3):
            return scale * a * b

    # In another order than that of the names by which it is fed.
    parts = {name: keras.Input((3,), name=name) for name in ("b", "a")}
    named = keras.Model(parts, layers.Multiply()([parts["a"], 2.0 * parts["b"]]))
    listed = keras.Model([parts["a"], parts["b"]], named(parts))
    for model, factor in ((Product(), 1), (Separate(), 3), (listed, 2), (named, 2)):
        of_first, of_second = gradients(model, [X, Y])
        np.testing.assert_allclose(as_array(of_first), factor * Y, rtol=1e-6)
        np.testing.assert_allclose(as_array(of_second), factor * X, rtol=1e-6)


def test_an_unconnected_argument_gives_none_on_tensorflow_and_an_error_on_jax():
    def constant(x, y):
        return ops.sum(x)

    if keras.backend.backend() == "jax":
        with pytest.raises(NotImplementedError, match="Received: 'none'"):
            gradients(constant, [X, Y], unconnected_gradients="none")
    else:
        assert gradients(constant, [X, Y], unconnected_gradients="none")[1] is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"grad_ys": [X, X]}, ValueError, "`grad_ys`.*1 outputs.*Received: 2"),
        ({"grad_ys": []}, ValueError, "`grad_ys`.*1 outputs.*Received: 0"),
        ({"grad_ys": [X[:1]]}, ValueError, r"must have the shape \(2, 3\) .*shape=\(1, 3\)"),
        ({"grad_ys": [np.float32(1)]}, ValueError, r"`grad_ys\[0\]`.*shape=\(\)"),
        ({"grad_ys": [None]}, TypeError, r"`grad_ys\[0\]` must be a tensor.*Received: None"),
        ({"grad_ys": [X.astype("float16")]}, TypeError, "dtype float32 .*Received: dtype=float16"),
        ({"grad_ys": [X.astype("int32")]}, TypeError, "must be floating.*Received: dtype=int32"),
        ({"grad_ys": X}, TypeError, "`grad_ys` must be a list.*Received: ndarray"),
        ({"stop_gradients": [1]}, ValueError, "`stop_gradients`.*0 to 0.*=1"),
        ({"stop_gradients": [-1]}, ValueError, "`stop_gradients`.*=-1"),
        ({"unconnected_gradients": None}, ValueError, "'zero', 'none'.*=None"),
    ],
)
def test_arguments_that_do_not_fit_raise_an_error(arguments, error, message):
    with pytest.raises(error, match=message):
        gradients(lambda x: x**2, [X], **arguments)


@pytest.mark.parametrize(
    ("function", "xs", "error", "message"),
    [
        (ops.sum, [X.astype("int32")], TypeError, r"`xs\[0\]` must be floating.*int32"),
        (ops.sum, X, TypeError, "`xs` must be a list of tensors"),
        (ops.sum, [], ValueError, "at least one tensor"),
        (lambda x: ops.argmax(x), [X], TypeError, r"`function\(\*xs\)\[0\]` must be floating"),
        (lambda x: [], [X], TypeError, "must return a tensor"),
        ("sum", [X], TypeError, "a function of tensors or a Keras model. Received: 'sum'"),
    ],
)
def test_functions_and_inputs_without_a_gradient_are_refused(function, xs, error, message):
    with pytest.raises(error, match=message):
        gradients(function, xs)


def test_a_backend_without_an_engine_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "numpy")
    with pytest.raises(NotImplementedError, match="Received: Keras backend 'numpy'"):
        gradients(ops.sum, [X])
