"""`docs/tf-gradients.md`, row by row: graph, tape and this package compute, and are compared.

Every test is named in the last column of the page's tables.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("compares two ways of TensorFlow", allow_module_level=True)

from dann.autodiff import batch_jacobian, gradients, hvp, jacobian, jvp, vjp  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "tf-gradients.md"
X = tf.constant([[-1.5, 0.25, 2.0], [0.5, 1.0, -3.0]])
U = tf.constant([[2.0, -1.0, 0.5], [0.25, 3.0, -2.0]])
V = tf.constant([[1.0, 0.5, -1.0], [-0.5, 2.0, 0.75]])


def in_graph(function, *inputs):
    return tf.function(function, autograph=False)(*inputs)


def by_tape(function, x, **arguments):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x, **arguments)


def assert_same(*values):
    for value in values[1:]:
        np.testing.assert_allclose(value, values[0], rtol=2e-6, atol=2e-6)


def cubic(x):
    return x**3 + x


def test_the_page_names_every_test_and_no_other():
    named = re.findall(r"`(test_\w+)`", PAGE.read_text())
    tests = {name for name in globals() if name.startswith("test_")}
    assert set(named) == tests - {"test_the_page_names_every_test_and_no_other"}


def test_several_ys_are_summed():
    def both(x):
        return [tf.sin(x), x**2]

    graph = in_graph(lambda x: tf.gradients(both(x), x)[0], X)
    assert_same(np.cos(X) + 2 * X, graph, by_tape(both, X), gradients(both, [X])[0])


def test_grad_ys_are_output_gradients():
    graph = in_graph(lambda x: tf.gradients(cubic(x), x, grad_ys=U)[0], X)
    tape = by_tape(cubic, X, output_gradients=U)
    assert_same(U * (3 * X**2 + 1), graph, tape, gradients(cubic, [X], grad_ys=[U])[0])
    assert_same(tape, vjp(cubic, [X], [U])[1][0])


def test_none_in_grad_ys_means_ones_only_in_a_graph():
    def both(x):
        return [tf.sin(x), x**2]

    graph = in_graph(lambda x: tf.gradients(both(x), x, grad_ys=[U, None])[0], X)
    ones = [U, tf.ones_like(X)]
    assert_same(graph, by_tape(both, X, output_gradients=ones), gradients(both, [X], ones)[0])
    with pytest.raises(ValueError, match="None"):
        by_tape(both, X, output_gradients=[U, None])
    with pytest.raises(ValueError, match="None"):
        gradients(both, [X], [U, None])


def test_only_the_tape_accepts_grad_ys_of_a_wrong_shape():
    wrong = tf.ones((4, 2, 3))
    assert by_tape(tf.sin, X, output_gradients=wrong).shape == (4, 2, 3)  # not the shape of X
    with pytest.raises(ValueError, match="shape"):
        in_graph(lambda x: tf.gradients(tf.sin(x), x, grad_ys=wrong)[0], X)
    with pytest.raises(ValueError, match="grad_ys"):
        gradients(tf.sin, [X], [wrong])


def test_only_the_tape_accepts_too_many_grad_ys():
    tape = by_tape(lambda x: [x**2], X, output_gradients=[U, 100.0 * U])
    assert_same(2 * X * U, tape)
    with pytest.raises(ValueError, match="Length mismatch"):
        in_graph(lambda x: tf.gradients([x**2], x, grad_ys=[U, U])[0], X)
    with pytest.raises(ValueError, match="grad_ys"):
        gradients(lambda x: [x**2], [X], [U, U])


@pytest.mark.slow
def test_too_few_grad_ys_crash_the_eager_tape():
    code = (
        "import tensorflow as tf\n"
        "x = tf.ones(3)\n"
        "with tf.GradientTape() as tape:\n"
        "    tape.watch(x)\n"
        "    ys = [x * 2.0, x * 3.0]\n"
        "tape.gradient(ys, x, output_gradients=[tf.ones(3)])\n"
        "print('survived')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode < 0
    assert "survived" not in ran.stdout
    with pytest.raises(ValueError, match="Length mismatch"):
        in_graph(lambda x: tf.gradients([2.0 * x, 3.0 * x], x, grad_ys=[U])[0], X)
    with pytest.raises(ValueError, match="grad_ys"):
        gradients(lambda x: [2.0 * x, 3.0 * x], [X], [U])


def test_all_refuse_a_wrong_dtype():
    wrong = tf.ones((2, 3), "float64")
    with pytest.raises((TypeError, ValueError)):
        in_graph(lambda x: tf.gradients(cubic(x), x, grad_ys=wrong)[0], X)
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
        by_tape(cubic, X, output_gradients=wrong)
    with pytest.raises(ValueError, match="grad_ys"):
        gradients(cubic, [X], [wrong])


def test_stop_gradients_turns_total_derivatives_into_partial_ones():
    def chain(x):
        a = 2.0 * x
        b = a**2 + x
        return a, b, a + b

    def by_graph(stop):
        def slopes(x):
            a, b, y = chain(x)
            stopped = [a, b] if stop else None
            return tf.gradients(y, [x, a, b], stop_gradients=stopped, unconnected_gradients="zero")

        return in_graph(slopes, tf.constant(3.0))

    x = tf.constant(3.0)
    with tf.GradientTape() as total:
        total.watch(x)
        a = 2.0 * x
        total.watch(a)
        b = a**2 + x
        total.watch(b)
        y = a + b
    assert_same([27.0, 13.0, 1.0], by_graph(False), total.gradient(y, [x, a, b]))
    with tf.GradientTape() as partial:
        partial.watch(x)
        a = tf.stop_gradient(2.0 * x)
        partial.watch(a)
        b = tf.stop_gradient(a**2 + x)
        partial.watch(b)
        y = a + b
    taped = partial.gradient(y, [x, a, b], unconnected_gradients="zero")
    assert_same([0.0, 1.0, 1.0], by_graph(True), taped)
    arguments = [x, a, b]
    assert_same(taped, gradients(lambda x, a, b: a + b, arguments))
    assert_same([0.0, 0.0, 1.0], gradients(lambda x, a, b: a + b, arguments, stop_gradients=[1]))


@pytest.mark.parametrize("unconnected", ["none", "zero"])
def test_unconnected_gradients_are_none_or_zeros(unconnected):
    def of_others(x, y):
        return [tf.stop_gradient(x), tf.round(x), tf.floor(x), y]

    for index in range(4):
        graph = in_graph(
            lambda x, y, index=index: tf.gradients(
                of_others(x, y)[index], x, unconnected_gradients=unconnected
            ),
            X,
            U,
        )[0]
        tape = by_tape(
            lambda x, index=index: of_others(x, U)[index], X, unconnected_gradients=unconnected
        )
        ours = gradients(
            lambda x, index=index: of_others(x, U)[index],
            [X],
            unconnected_gradients=unconnected,
        )[0]
        if unconnected == "none":
            assert (graph, tape, ours) == (None, None, None)
        else:
            assert_same(np.zeros((2, 3)), graph, tape, ours)


def test_sign_is_connected_with_a_gradient_of_zeros():
    graph = in_graph(lambda x: tf.gradients(tf.sign(x), x)[0], X)
    assert_same(np.zeros((2, 3)), graph, by_tape(tf.sign, X))
    assert_same(graph, gradients(tf.sign, [X], unconnected_gradients="none")[0])


def test_integers_have_no_gradient():
    whole = tf.constant([1, 2, 3])

    def of_whole(x):
        return tf.cast(x, "float32") ** 2

    assert in_graph(lambda x: tf.gradients(of_whole(x), x), whole) == [None]
    assert by_tape(of_whole, whole) is None
    with pytest.raises(TypeError, match="must be floating"):
        gradients(of_whole, [whole])


def test_a_tensor_must_be_watched():
    def slope(x):
        with tf.GradientTape(persistent=True) as tape:
            y = cubic(x)
        assert tape.gradient(y, x) is None
        return tf.gradients(y, x)[0]

    assert_same(by_tape(cubic, X), in_graph(slope, X))


def test_a_variable_that_is_not_trainable_must_be_watched():
    fixed = tf.Variable(3.0, trainable=False)
    with tf.GradientTape() as tape:
        y = fixed**2
    assert tape.gradient(y, fixed) is None
    with tf.GradientTape() as tape:
        tape.watch(fixed)
        y = fixed**2
    graph = in_graph(lambda: tf.gradients(fixed**2, fixed)[0])
    assert_same(6.0, graph, tape.gradient(y, fixed))
    keras_variable = keras.Variable(3.0)
    with tf.GradientTape() as tape:
        y = keras_variable**2
    assert_same(6.0, tape.gradient(y, keras_variable))
    assert_same(6.0, in_graph(lambda: tf.gradients(keras_variable**2, keras_variable)[0]))
    assert_same(6.0, gradients(lambda x: x**2, [keras_variable])[0])


def test_only_graphs_honour_gradient_override_map():
    name = "MapRowNegated"
    if name not in _registered:
        tf.RegisterGradient(name)(lambda op, upstream: -upstream)
        _registered.add(name)

    def overridden(x):
        with tf.compat.v1.get_default_graph().gradient_override_map({"Tanh": name}):
            return tf.tanh(x)

    slope = 1 - np.tanh(X) ** 2
    assert_same(-np.ones((2, 3)), in_graph(lambda x: tf.gradients(overridden(x), x)[0], X))
    assert_same(slope, in_graph(lambda x: by_tape(overridden, x), X))
    assert_same(-np.ones((2, 3)), by_tape(tf.function(overridden, autograph=False), X))


_registered = set()


def test_gathered_rows_give_indexed_slices():
    rows = tf.constant([1, 1, 0])

    def gathered(x):
        return tf.gather(x, rows) ** 2

    def slices(x):
        graph, tape = tf.gradients(gathered(x), x)[0], by_tape(gathered, x)
        assert isinstance(graph, tf.IndexedSlices)
        assert isinstance(tape, tf.IndexedSlices)
        return tf.convert_to_tensor(graph), tf.convert_to_tensor(tape)

    expected = 2 * X * [[1.0], [2.0]]
    ours = gradients(gathered, [X])[0]
    assert isinstance(ours, tf.Tensor)
    assert_same(expected, *in_graph(slices, X), ours)


def test_both_differentiate_loops():
    def looped(x):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]

    graph = in_graph(lambda x: tf.gradients(looped(x), x)[0], X)
    assert_same(4 * X**3, graph, by_tape(looped, X), gradients(looped, [X])[0])


def test_a_second_derivative_takes_two_tapes():
    def second(x):
        return tf.gradients(tf.gradients(cubic(x), x)[0], x)[0]

    nested = by_tape(lambda x: by_tape(cubic, x), X)
    ours = gradients(lambda x: gradients(cubic, [x])[0], [X])[0]
    assert_same(6 * X, in_graph(second, X), nested, ours)
    assert_same(nested, by_tape(lambda x: in_graph(lambda x: tf.gradients(cubic(x), x)[0], x), X))


def quartic(x):
    return tf.reduce_sum(x**2) ** 2


def test_hessians_are_jacobians_of_gradients():
    graph = in_graph(lambda x: tf.hessians(quartic(x), x)[0], X)
    with tf.GradientTape() as tape:
        tape.watch(X)
        slope = by_tape(quartic, X)
    flat = X.numpy().ravel()
    expected = 8 * np.outer(flat, flat) + 4 * (flat @ flat) * np.eye(6)
    ours = jacobian(lambda x: gradients(quartic, [x])[0], X)
    assert_same(expected.reshape(2, 3, 2, 3), graph, tape.jacobian(slope, X), ours)
    along = np.einsum("abcd,cd->ab", graph, V)
    np.testing.assert_allclose(hvp(quartic, [X], [V])[0], along, rtol=1e-5)


def test_two_backward_passes_make_a_forward_one():
    def mixing(x):
        return tf.sin(x @ tf.transpose(U)) + 1.0

    def pushed(x, v):
        y = mixing(x)
        u = tf.zeros_like(y)
        return tf.gradients(tf.gradients(y, x, u)[0], u, v)[0]

    with tf.autodiff.ForwardAccumulator(X, V) as accumulator:
        y = mixing(X)
    expected = np.cos(X @ tf.transpose(U)) * (V @ tf.transpose(U))
    assert_same(expected, in_graph(pushed, X, V), accumulator.jvp(y), jvp(mixing, [X], [V])[1])


def test_forward_mode_ignores_a_custom_gradient():
    @tf.custom_gradient
    def negated(x):
        return x * 1.0, lambda upstream: -upstream

    def pushed(x, v):
        y = negated(x)
        u = tf.zeros_like(y)
        return tf.gradients(tf.gradients(y, x, u)[0], u, v)[0]

    with tf.autodiff.ForwardAccumulator(X, V) as accumulator:
        y = negated(X)
    assert_same(V, accumulator.jvp(y))  # the sign is wrong
    assert_same(-V, in_graph(pushed, X, V), jvp(negated, [X], [V])[1])


def test_a_jacobian_has_a_row_for_each_output():
    def mixing(x):
        return tf.reshape(tf.sin(x @ tf.transpose(U)), [-1])

    def row_by_row(x):
        return tf.stack([tf.gradients(y, x)[0] for y in tf.unstack(mixing(x))])

    with tf.GradientTape() as tape:
        tape.watch(X)
        y = mixing(X)
    assert_same(in_graph(row_by_row, X), tape.jacobian(y, X), jacobian(mixing, X))
    assert "output_gradients" not in inspect.signature(tf.GradientTape.jacobian).parameters


def test_a_batch_jacobian_is_the_diagonal_of_a_jacobian():
    def each(x):
        return tf.sin(x @ tf.transpose(U))

    with tf.GradientTape() as tape:
        tape.watch(X)
        y = each(X)
    blocks = np.einsum("bibj->bij", jacobian(each, X))
    assert_same(blocks, tape.batch_jacobian(y, X), batch_jacobian(each, X))


def test_a_batch_jacobian_through_batch_statistics_is_a_silent_zero():
    def normalized(x):
        return (x - tf.reduce_mean(x, 0)) / tf.math.reduce_std(x, 0)

    x = tf.concat([X, U], 0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = normalized(x)
    true_blocks = np.einsum("bibj->bij", tape.jacobian(y, x))
    assert np.abs(true_blocks).max() > 0.1
    assert np.abs(tape.batch_jacobian(y, x)).max() < 1e-6
    with pytest.raises(ValueError, match="one by one"):
        batch_jacobian(normalized, x)
