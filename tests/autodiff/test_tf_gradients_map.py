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


def types_of(function, *inputs):
    traced = tf.function(function, autograph=False).get_concrete_function(*inputs)
    return [operation.type for operation in traced.graph.get_operations()]


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
    with pytest.raises(TypeError, match=r"`grad_ys\[1\]` must be a tensor"):
        gradients(both, [X], [U, None])


def test_only_the_tape_accepts_grad_ys_of_a_wrong_shape():
    wrong = tf.ones((4, 2, 3))
    assert by_tape(tf.sin, X, output_gradients=wrong).shape == (4, 2, 3)  # not the shape of X
    with pytest.raises(ValueError, match="shape"):
        in_graph(lambda x: tf.gradients(tf.sin(x), x, grad_ys=wrong)[0], X)
    with pytest.raises(ValueError, match=r"`grad_ys\[0\]` must have the shape \(2, 3\)"):
        gradients(tf.sin, [X], [wrong])


def test_only_the_tape_accepts_too_many_grad_ys():
    tape = by_tape(lambda x: [x**2], X, output_gradients=[U, 100.0 * U])
    assert_same(2 * X * U, tape)
    with pytest.raises(ValueError, match="Length mismatch"):
        in_graph(lambda x: tf.gradients([x**2], x, grad_ys=[U, U])[0], X)
    with pytest.raises(ValueError, match="one tensor for each of the 1 outputs. Received: 2"):
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
    with pytest.raises(ValueError, match="each of the 2 outputs. Received: 1"):
        gradients(lambda x: [2.0 * x, 3.0 * x], [X], [U])


def test_all_refuse_a_wrong_dtype():
    wrong = tf.ones((2, 3), "float64")
    with pytest.raises((TypeError, ValueError)):
        in_graph(lambda x: tf.gradients(cubic(x), x, grad_ys=wrong)[0], X)
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
        by_tape(cubic, X, output_gradients=wrong)
    with pytest.raises(TypeError, match=r"`grad_ys\[0\]` must have the dtype float32"):
        gradients(cubic, [X], [wrong])


def test_name_is_a_scope_in_the_graph():
    with tf.Graph().as_default() as graph:
        x = tf.constant(X.numpy())
        slope = tf.gradients(cubic(x), x, name="backward")[0]
        assert slope.op.name.startswith("backward/")
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = cubic(x)
        with tf.name_scope("scope"):
            taped = tape.gradient(y, x)
        assert taped.op.name.startswith("scope/")
        with tf.compat.v1.Session(graph=graph) as session:
            assert_same(*session.run([slope, taped]))


def test_gradients_are_colocated_in_graphs_and_never_by_a_tape():
    assert "colocate_gradients_with_ops" not in inspect.signature(tf.gradients).parameters
    device = "/device:CPU:1"

    def devices(make):
        with tf.Graph().as_default():
            x = tf.constant(X.numpy())
            with tf.GradientTape() as tape:
                tape.watch(x)
                with tf.device(device):
                    y = tf.sin(x)
            return [
                operation.device
                for operation in [make(tape, y, x).op]
                + tf.compat.v1.get_default_graph().get_operations()
                if operation.type == "Cos"
            ]

    version1 = tf.compat.v1.gradients
    assert devices(lambda tape, y, x: tf.gradients(y, x)[0]) == [device]
    assert devices(lambda tape, y, x: version1(y, x)[0]) == [""]
    colocated = devices(lambda tape, y, x: version1(y, x, colocate_gradients_with_ops=True)[0])
    assert colocated == [device]
    assert devices(lambda tape, y, x: tape.gradient(y, x)) == [""]


def test_gating_orders_operations_and_changes_no_value():
    def slopes(x, gate):
        return tf.gradients(tf.sin(x) * tf.cos(x) * x, x, gate_gradients=gate)[0]

    values = [in_graph(lambda x, gate=gate: slopes(x, gate), X) for gate in (False, True)]
    tape = by_tape(lambda x: tf.sin(x) * tf.cos(x) * x, X)
    np.testing.assert_array_equal(*values)
    assert_same(tape, values[1])
    counts = [len(types_of(lambda x, gate=gate: slopes(x, gate), X)) for gate in (False, True)]
    assert counts[1] > counts[0]
    assert "gate_gradients" not in inspect.signature(tf.GradientTape.gradient).parameters


def test_aggregation_methods_differ_in_operations_and_not_in_value():
    methods = tf.AggregationMethod

    def total(x):
        return tf.add_n([tf.sin(x * float(i + 1)) for i in range(8)])

    def slope(method):
        return lambda x: tf.gradients(total(x), x, aggregation_method=method)[0]

    expected = sum((i + 1) * np.cos((i + 1) * X.numpy().astype("float64")) for i in range(8))
    for method, additions in (
        (methods.DEFAULT, 1),
        (methods.EXPERIMENTAL_TREE, 7),
        (methods.EXPERIMENTAL_ACCUMULATE_N, 7),
    ):
        np.testing.assert_allclose(in_graph(slope(method), X), expected, rtol=1e-5)
        # One more adds up the function itself.
        assert types_of(slope(method), X).count("AddN") == additions + 1
    assert types_of(lambda x: by_tape(total, x), X).count("AddN") == 2
    np.testing.assert_allclose(by_tape(total, X), expected, rtol=1e-5)


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


def test_tf_gradients_works_only_in_graphs():
    with pytest.raises(RuntimeError, match="not supported when eager"):
        tf.gradients(cubic(X), X)
    assert_same(by_tape(cubic, X), in_graph(lambda x: by_tape(cubic, x), X))


def test_tf_gradients_sees_the_whole_graph_and_a_tape_what_it_recorded():
    def early(x):
        y = cubic(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = 2.0 * y
        assert tape.gradient(z, x) is None
        return tf.gradients(z, x)[0]

    assert_same(2 * (3 * X**2 + 1), in_graph(early, X))


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


def test_a_tape_can_be_used_once_and_a_graph_again_and_again():
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = cubic(X)
    first = tape.gradient(y, X)
    with pytest.raises(RuntimeError, match="non-persistent"):
        tape.gradient(y, X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = cubic(X)

    def twice(x):
        y = cubic(x)
        return tf.gradients(y, x)[0], tf.gradients(y, x)[0]

    assert_same(first, *in_graph(twice, X), tape.gradient(y, X), tape.gradient(y, X))


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
