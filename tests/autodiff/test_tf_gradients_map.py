"""`docs/tf-gradients.md`: graph, tape and this package compute, and are compared."""

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("compares two ways of TensorFlow", allow_module_level=True)

from dann.autodiff import batch_jacobian, gradients, hvp, jacobian, jvp  # noqa: E402

X = tf.constant([[-1.5, 0.25, 2.0], [0.5, 1.0, -3.0]])
U = tf.constant([[2.0, -1.0, 0.5], [0.25, 3.0, -2.0]])
V = tf.constant([[1.0, 0.5, -1.0], [-0.5, 2.0, 0.75]])
ZEROS, ONES = tf.zeros_like(X), tf.ones_like(X)


def in_graph(function, *inputs):
    return tf.function(function, autograph=False)(*inputs)


def by_graph(function, x=X, **arguments):
    return in_graph(lambda x: tf.gradients(function(x), x, **arguments)[0], x)


def by_tape(function, x=X, method="gradient", **arguments):
    with tf.GradientTape(persistent=not tf.executing_eagerly()) as tape:
        tape.watch(x)
        y = function(x)
    return getattr(tape, method)(y, x, **arguments)


def ours(function, x=X, **arguments):
    return gradients(function, [x], **arguments)[0]


def by_two_backward_passes(function):
    def push(x, v):
        y = function(x)
        u = tf.zeros_like(y)
        return tf.gradients(tf.gradients(y, x, u)[0], u, v)[0]

    return in_graph(push, X, V)


def by_accumulator(function):
    with tf.autodiff.ForwardAccumulator(X, V) as accumulator:
        y = function(X)
    return accumulator.jvp(y)


def assert_same(*values):
    for value in values[1:]:
        np.testing.assert_allclose(value, values[0], rtol=1e-5, atol=2e-6)


def both(x):
    return [tf.sin(x), x**2]


def cubic(x):
    return x**3 + x


def quartic(x):
    return tf.reduce_sum(x**2) ** 2


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
        (both, None, np.cos(X) + 2 * X),  # which are summed
        (cubic, [U], U * (3 * X**2 + 1)),
        (both, [U, ONES], U * np.cos(X) + 2 * X),
        (tf.sign, None, ZEROS),  # and not `None`
        (looped, None, 4 * X**3),
    ],
)
def test_all_ways_give_the_closed_form(function, grad_ys, expected):
    found = ours(function, grad_ys=grad_ys, unconnected_gradients="none")
    of_tape = by_tape(function, output_gradients=grad_ys)
    assert_same(expected, by_graph(function, grad_ys=grad_ys), of_tape, found)


def test_a_second_derivative_takes_two_tapes():
    graph = by_graph(lambda x: tf.gradients(cubic(x), x)[0])
    tapes = by_tape(lambda x: by_tape(cubic, x)), by_tape(lambda x: by_graph(cubic, x))
    assert_same(6 * X, graph, *tapes, ours(lambda x: ours(cubic, x)))


def test_hessians_are_jacobians_of_gradients():
    flat = X.numpy().ravel()
    matrix = 8 * np.outer(flat, flat) + 4 * (flat @ flat) * np.eye(6)
    graph = in_graph(lambda x: tf.hessians(quartic(x), x)[0], X)
    tapes = by_tape(lambda x: by_tape(quartic, x), method="jacobian")
    found = jacobian(lambda x: ours(quartic, x), X)
    assert_same(matrix.reshape(2, 3, 2, 3), graph, tapes, found)
    assert_same(np.einsum("abcd,cd->ab", graph, V), hvp(quartic, [X], [V])[0])


def test_two_backward_passes_make_a_forward_one():
    expected = np.cos(X @ tf.transpose(U)) * (V @ tf.transpose(U))
    found = jvp(mixing, [X], [V])[1]
    assert_same(expected, by_two_backward_passes(mixing), by_accumulator(mixing), found)


def test_forward_mode_ignores_a_custom_gradient():
    assert_same(V, by_accumulator(negated))  # the sign is wrong
    assert_same(-V, by_two_backward_passes(negated), jvp(negated, [X], [V])[1])


def test_jacobians_have_a_row_for_each_output_and_batch_jacobians_are_their_diagonal():
    def row_by_row(x):
        return tf.stack([tf.gradients(y, x)[0] for y in tf.unstack(tf.reshape(mixing(x), [-1]))])

    blocks = np.cos(X @ tf.transpose(U))[:, :, None] * U[None]
    whole = np.einsum("ab,aoi->aobi", np.eye(2), blocks)
    assert_same(whole, by_tape(mixing, method="jacobian"), jacobian(mixing, X))
    assert_same(whole, tf.reshape(in_graph(row_by_row, X), whole.shape))
    assert_same(blocks, by_tape(mixing, method="batch_jacobian"), batch_jacobian(mixing, X))


def test_stop_gradients_turns_total_derivatives_into_partial_ones():
    def of_graph(x, stop):
        a = 2.0 * x
        b = a**2 + x
        arguments = {"stop_gradients": [a, b]} if stop else {}
        return tf.gradients(a + b, [x, a, b], unconnected_gradients="zero", **arguments)

    x, arguments = tf.constant(3.0), [3.0, 6.0, 39.0]
    total, partial = (in_graph(lambda x, s=stop: of_graph(x, s), x) for stop in (False, True))
    assert_same([27.0, 13.0, 1.0], total)
    assert_same([0.0, 1.0, 1.0], partial, gradients(lambda x, a, b: a + b, arguments))
    assert_same([0.0, 0.0, 1.0], gradients(lambda x, a, b: a + b, arguments, stop_gradients=[1]))


@pytest.mark.parametrize("function", [tf.stop_gradient, tf.round, tf.floor, lambda x: 1.0 * U])
def test_unconnected_gradients_are_none_or_zeros(function):
    ways = by_graph, by_tape, ours
    assert [way(function, unconnected_gradients="none") for way in ways] == [None] * 3
    assert_same(ZEROS, *(way(function, unconnected_gradients="zero") for way in ways))


def test_gathered_rows_give_indexed_slices():
    def gathered(x):
        return tf.gather(x, tf.constant([1, 1, 0])) ** 2

    found = by_graph(gathered), by_tape(gathered), ours(gathered)
    assert [type(value) for value in found[:2]] == [tf.IndexedSlices] * 2
    assert isinstance(found[2], tf.Tensor)
    assert_same(2 * X * [[1.0], [2.0]], *map(tf.convert_to_tensor, found))
