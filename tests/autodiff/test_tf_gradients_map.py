"""The map of `docs/tf-gradients.md`: graph, tape and this package compute the same values."""

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("compares graphs and tapes of TensorFlow", allow_module_level=True)

from dann.autodiff import gradients, jvp  # noqa: E402

X = tf.constant([[-1.5, 0.25, 2.0], [0.5, 1.0, -3.0]])
U = tf.constant([[2.0, -1.0, 0.5], [0.25, 3.0, -2.0]])
V = tf.constant([[1.0, 0.5, -1.0], [-0.5, 2.0, 0.75]])
ZEROS, ONES = tf.zeros_like(X), tf.ones_like(X)


def run_in_graph(function, *inputs):
    return tf.function(function, autograph=False)(*inputs)


def graph_gradient(function, x=X, **arguments):
    return run_in_graph(lambda x: tf.gradients(function(x), x, **arguments)[0], x)


def tape_gradient(function, x=X, **arguments):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x, **arguments)


def package_gradient(function, x=X, **arguments):
    return gradients(function, [x], **arguments)[0]


def push_by_two_backward_passes(function):
    def push(x, v):
        y = function(x)
        u = tf.zeros_like(y)
        return tf.gradients(tf.gradients(y, x, u)[0], u, v)[0]

    return run_in_graph(push, X, V)


def push_by_accumulator(function):
    with tf.autodiff.ForwardAccumulator(X, V) as accumulator:
        y = function(X)
    return accumulator.jvp(y)


def assert_same(*values):
    for value in values[1:]:
        np.testing.assert_allclose(value, values[0], rtol=1e-5, atol=2e-6)


def two_outputs(x):
    return [tf.sin(x), x**2]


def cubic(x):
    return x**3 + x


def looped(x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]


def mixing(x):
    return tf.sin(x @ tf.transpose(U))


@tf.custom_gradient
def negated(x):
    return x * 1.0, lambda upstream: -upstream


@pytest.mark.parametrize(
    ("function", "grad_ys", "expected"),
    [
        (two_outputs, None, np.cos(X) + 2 * X),  # which are summed
        (cubic, [U], U * (3 * X**2 + 1)),
        (two_outputs, [U, ONES], U * np.cos(X) + 2 * X),
        (tf.sign, None, ZEROS),  # and not `None`
        (looped, None, 4 * X**3),
    ],
)
def test_gradients_match_the_closed_form(function, grad_ys, expected):
    gradient = package_gradient(function, grad_ys=grad_ys, unconnected_gradients="none")
    tape = tape_gradient(function, output_gradients=grad_ys)
    assert_same(expected, graph_gradient(function, grad_ys=grad_ys), tape, gradient)


def test_second_derivative_needs_two_tapes_or_a_graph():
    tapes = [tape_gradient(lambda x, f=f: f(cubic, x)) for f in (tape_gradient, graph_gradient)]
    assert_same(6 * X, *tapes, graph_gradient(lambda x: tf.gradients(cubic(x), x)[0]))


def test_forward_mode_ignores_a_custom_gradient():
    expected = np.cos(X @ tf.transpose(U)) * (V @ tf.transpose(U))
    assert_same(expected, push_by_two_backward_passes(mixing), push_by_accumulator(mixing))
    assert_same(-V, push_by_two_backward_passes(negated), jvp(negated, [X], [V])[1])
    assert_same(V, push_by_accumulator(negated))  # the sign is wrong


def test_stop_gradients_gives_partial_derivatives():
    def differentiate(x):
        a = 2.0 * x
        b = a**2 + x
        stops = {"stop_gradients": [a, b]}
        return tf.gradients(a + b, [x, a, b], unconnected_gradients="zero", **stops)

    partial, arguments = run_in_graph(differentiate, tf.constant(3.0)), [3.0, 6.0, 39.0]
    assert_same([0.0, 1.0, 1.0], partial, gradients(lambda x, a, b: a + b, arguments))
    assert_same([0.0, 0.0, 1.0], gradients(lambda x, a, b: a + b, arguments, stop_gradients=[1]))


@pytest.mark.parametrize("function", [tf.stop_gradient, tf.round, tf.floor, lambda x: 1.0 * U])
def test_unconnected_gradients_are_none_or_zeros(function):
    methods = graph_gradient, tape_gradient, package_gradient
    assert [method(function, unconnected_gradients="none") for method in methods] == [None] * 3
    assert_same(ZEROS, *(method(function, unconnected_gradients="zero") for method in methods))
