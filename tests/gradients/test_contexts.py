"""Gradients in every context of TensorFlow in closed form, and overridden operations."""

import functools

import keras
import numpy as np
import pytest
from support.differentiate import value_and_gradients

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("the contexts are TensorFlow's", allow_module_level=True)

from dann import gradients  # noqa: E402
from dann.gradients import override_gradient, reverse_gradient  # noqa: E402

STRENGTH = 0.7
INPUTS = np.float32([[-2.0, -1.0, -0.5], [-0.0, 0.0, 0.5], [1.0, 2.0, -1.5], [0.25, -0.25, 1.25]])
WEIGHTS = np.float32([[0.3, -0.2, 0.5], [0.4, -0.5, 0.1], [-0.4, 0.2, 0.3], [0.1, 0.6, -0.3]])

SIGNS = np.where(INPUTS >= 0, 1.0, -1.0)
REVERSAL, HTANH = np.full(INPUTS.shape, -STRENGTH), np.abs(INPUTS) <= 1.0
clip_surrogate = gradients.surrogate_gradient(
    lambda x: tf.where(x >= 0.0, tf.ones_like(x), -tf.ones_like(x)),
    lambda x: tf.where(tf.abs(x) <= 1.0, x, tf.zeros_like(x)),
)
# Value, factor of the backward pass, and function.
CASES = {
    "override_gradient": (INPUTS, REVERSAL, override_gradient(tf.identity, lambda u, x: u * -0.7)),
    "surrogate_gradient": (SIGNS, HTANH, clip_surrogate),
}
for implementation in ("override", "stop_gradient", "op_override"):
    reverse = functools.partial(reverse_gradient, strength=STRENGTH, implementation=implementation)
    sign = functools.partial(gradients.binary_sign, implementation=implementation)
    CASES[f"reversal, {implementation}"] = INPUTS, REVERSAL, reverse
    CASES[f"sign, {implementation}"] = SIGNS, HTANH, sign


def loss(outputs, weights=WEIGHTS):
    return tf.reduce_sum(weights * (outputs + outputs**2 / 2.0))


def value_and_gradient(function, inputs, weights=WEIGHTS):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = function(inputs)
        total = loss(value, weights)
    return value, tape.gradient(total, inputs)


def as_graph(function, **options):
    return tf.function(function, autograph=False, **options)


def tape_inside(function, inputs, **options):
    return as_graph(lambda inputs: value_and_gradient(function, inputs), **options)(inputs)


def tape_outside(function, inputs, **options):
    return value_and_gradient(as_graph(function, **options), inputs)


def run_functions_eagerly(function, inputs):
    tf.config.run_functions_eagerly(True)
    try:
        return value_and_gradient(function, inputs)
    finally:
        tf.config.run_functions_eagerly(False)


def tf_gradients(function, inputs):
    def differentiate(inputs):
        value = function(inputs)
        return value, tf.gradients(loss(value), inputs)[0]

    return as_graph(differentiate)(inputs)


def run_in_branch(function, inputs):
    def branch(inputs):
        return tf.cond(tf.reduce_sum(inputs) > -100.0, lambda: function(inputs), lambda: inputs)

    return tape_inside(branch, inputs)


def vectorize(function, inputs):
    def row(arguments):
        return value_and_gradient(function, *arguments)

    return tf.vectorized_map(row, (inputs, tf.constant(WEIGHTS)))


def save_and_reload(function, inputs, tmp_path):
    module = tf.Module()
    module.call = tf.function(function, input_signature=[tf.TensorSpec([None, 3])], autograph=False)
    tf.saved_model.save(module, str(tmp_path))
    return value_and_gradient(tf.saved_model.load(str(tmp_path)).call, inputs)


def with_signature(spec):
    return functools.partial(tape_inside, input_signature=[spec])


CONTEXTS = {
    "eager": value_and_gradient,
    "graph, tape inside": tape_inside,
    "graph, tape outside": tape_outside,
    "XLA, tape inside": functools.partial(tape_inside, jit_compile=True),
    "XLA, tape outside": functools.partial(tape_outside, jit_compile=True),
    "unknown shape": with_signature(tf.TensorSpec([None, None])),
    "unknown rank": with_signature(tf.TensorSpec(None)),
    "run_functions_eagerly": run_functions_eagerly,
    "tf.gradients": tf_gradients,
    "tf.cond": run_in_branch,
    "tf.map_fn, a loop": lambda function, inputs: tape_inside(
        functools.partial(tf.map_fn, function), inputs
    ),
    "tf.recompute_grad": lambda function, inputs: tape_inside(tf.recompute_grad(function), inputs),
    "tf.vectorized_map, tape inside": vectorize,
    "SavedModel": save_and_reload,
}

parametrize_case = pytest.mark.parametrize("case", CASES)


@parametrize_case
@pytest.mark.parametrize("context", CONTEXTS)
def test_value_and_gradient_in_context(context, case, tmp_path):
    value, slope, function = CASES[case]
    folder = [tmp_path] if context == "SavedModel" else []
    outputs, gradient = CONTEXTS[context](function, tf.constant(INPUTS), *folder)
    np.testing.assert_allclose(outputs, value, 1e-6, 1e-6)
    np.testing.assert_allclose(gradient, slope * WEIGHTS * (1.0 + value), 1e-6, 1e-6)


@parametrize_case
@pytest.mark.parametrize("compiled", [False, True])
def test_second_and_forward_derivatives_compose_the_slope(case, compiled):
    _, slope, function = CASES[case]

    def differentiate(inputs):
        upstream = tf.ones(INPUTS.shape)
        with tf.GradientTape(persistent=True) as outer:
            outer.watch([inputs, upstream])
            _, gradient = value_and_gradient(function, inputs)
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = function(inputs)
            pulled_back = tape.gradient(outputs, inputs, upstream)
        with tf.autodiff.ForwardAccumulator(inputs, tf.constant(WEIGHTS)) as accumulator:
            outputs = function(inputs)
        return (
            outer.gradient(gradient, inputs),
            outer.gradient(pulled_back, upstream, WEIGHTS),
            accumulator.jvp(outputs),
            outer.batch_jacobian(pulled_back, upstream),
        )

    run = as_graph(differentiate) if compiled else differentiate
    second, double_backward, forward_mode, jacobian = run(tf.constant(INPUTS))
    np.testing.assert_allclose(second, slope**2.0 * WEIGHTS, 1e-6, 1e-6)
    np.testing.assert_allclose(double_backward, slope * WEIGHTS, 1e-6, 1e-6)
    np.testing.assert_allclose(forward_mode, slope * WEIGHTS, 1e-6, 1e-6)
    np.testing.assert_allclose(jacobian, [np.diag(1.0 * row) for row in slope], 1e-6, 1e-6)


@tf.RegisterGradient("ProductGradOfTests")
def product_gradient(op, upstream):
    return 5.0 * upstream * op.inputs[1], 7.0 * upstream * op.inputs[0]


def test_registered_gradient_of_two_inputs():
    function = gradients.override_op_gradients(tf.multiply, {"Mul": "ProductGradOfTests"})
    _, slopes = value_and_gradients(function, [2.0], [3.0])
    assert [slope.tolist() for slope in slopes] == [[15.0], [14.0]]


def test_only_operations_of_the_types_are_overridden():
    def function(inputs):
        return tf.sign(inputs) + tf.sign(2.0 * inputs) + inputs * inputs + tf.round(inputs)

    times_ten, times_five = (lambda op, upstream, n=n: n * upstream for n in (10.0, 5.0))
    overridden = gradients.override_op_gradients(function, {"Sign": times_ten, "Round": times_five})
    # 10 from the first sign, 20 from the second, 2 * 3 from the square, 5 from the rounding.
    value, (gradient,) = value_and_gradients(overridden, [3.0])
    assert (value.tolist(), gradient.tolist()) == ([14.0], [10.0 + 20.0 + 6.0 + 5.0])


REFUSALS = {
    "no tensor": (tf.sign, lambda op, upstream: 0, "a tensor for each input. Received: int"),
    "other operation": (tf.tanh, "ProductGradOfTests", r"\['Sign'\].*'Tanh'\], without \['Sign'\]"),
    "unknown name": (tf.sign, "typo", "`tf.RegisterGradient` registered. Received: 'typo'"),
}


@pytest.mark.parametrize(("function", "gradient", "words"), REFUSALS.values(), ids=REFUSALS)
def test_override_without_effect_is_refused(function, gradient, words):
    with pytest.raises((TypeError, ValueError, LookupError), match=words):
        value_and_gradients(gradients.override_op_gradients(function, {"Sign": gradient}), [1.0])


@pytest.mark.parametrize("inputs", [[tf.ones(1)], {"x": tf.ones(1)}])
def test_nested_inputs_of_overridden_operations_are_refused(inputs):
    overridden = gradients.override_op_gradients(tf.sign, {"Sign": product_gradient})
    with pytest.raises(TypeError, match="positional arguments"):
        overridden(inputs)
