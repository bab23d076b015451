"""Functions whose gradient is overridden or composed from `stop_gradient`."""

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops
from support.differentiate import BACKEND, bits, tensor, value_and_gradients

from dann import gradients
from dann.gradients import override_gradient, reverse_gradient, surrogate_gradient

halved = override_gradient(lambda inputs: inputs, lambda upstream, inputs: upstream / 2)


TWO_INPUTS = {
    "override": (
        override_gradient(ops.add, lambda u, first, second: (u * second, 100 * u * first)),
        [[30.0, 80.0], [1000.0, 4000.0]],
    ),
    "surrogate": (
        surrogate_gradient(ops.add, lambda first, second: first**2 * second),
        [[60.0, 320.0], [10.0, 80.0]],
    ),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("function", "expected"), TWO_INPUTS.values(), ids=TWO_INPUTS)
def test_backward_gets_upstream_and_all_inputs(function, expected, compiled):
    inputs = tensor([1.0, 2.0], "float32"), tensor([3.0, 4.0], "float32")
    value, gradients = value_and_gradients(
        function, *inputs, upstream=[10.0, 20.0], compiled=compiled
    )
    assert value.tolist() == [4.0, 6.0]
    assert [gradient.tolist() for gradient in gradients] == expected


def swap_and_triple(upstream, inputs, kernel):
    """Returns three times the gradient of the kernel, and minus the gradient of the inputs."""
    input_gradient = ops.matmul(upstream, ops.transpose(kernel))
    return -input_gradient, 3.0 * ops.matmul(ops.transpose(inputs), upstream)


class Product(keras.layers.Layer):
    multiply = staticmethod(override_gradient(ops.matmul, swap_and_triple))

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], 2), initializer="ones")

    def call(self, inputs):
        return self.multiply(inputs, self.kernel)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize(
    "mode", [{"run_eagerly": True}, {"jit_compile": False}, {"jit_compile": True}]
)
def test_keras_variable_is_an_input(mode, policy):
    if mode.get("jit_compile") and BACKEND == "torch":
        pytest.skip("Keras compiles nothing on PyTorch")
    x, w = np.float32([[1, 2, 0.5], [0.25, -1, 4]]), np.float32([[1, -0.5], [2, 0.25]])
    model = keras.Sequential([keras.Input((3,)), Product(dtype=policy)])
    model.compile(
        keras.optimizers.SGD(1.0), lambda w, y: ops.sum(w * ops.cast(y, "float32"), -1), **mode
    )
    model.fit(x, w, batch_size=2, verbose=0)
    kernel = ops.convert_to_numpy(model.layers[0].kernel)
    np.testing.assert_allclose(kernel, 1 - 3 * x.T @ w / 2, rtol=1e-6)


def half(inputs):
    return inputs / 2


def plain(upstream, inputs):
    return upstream


def thrice(upstream, inputs):
    return 3.0 * upstream


def test_functions_in_a_file_stay_distinct(tmp_path):
    register = keras.saving.register_keras_serializable("test")
    functions = [
        register(override_gradient(half, plain)),
        register(override_gradient(half, thrice)),
        register(surrogate_gradient(half, ops.square)),
        register(override_gradient(lambda x: x, lambda u, x: 5 * u, name="five")),
        gradients.binary_sign,
        reverse_gradient,
    ]
    inputs = keras.Input((1,))
    outputs = [keras.layers.Dense(1, activation=f, use_bias=False)(inputs) for f in functions]
    model = keras.Model(inputs, outputs)
    for layer in model.layers[1:]:
        layer.set_weights([np.ones((1, 1))])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for index, slope in enumerate([1.0, 3.0, 1.0, 5.0, 1.0, -1.0]):
        function = loaded.layers[1 + index].activation
        _, (gradient,) = value_and_gradients(function, tensor([0.5], "float32"))
        assert gradient.tolist() == [slope], index


@pytest.mark.skipif(BACKEND != "tensorflow", reason="counts TensorFlow graphs")
def test_graphs_of_earlier_traces_are_freed():
    """A bare `tf.custom_gradient` would keep all of them."""
    import tensorflow as tf

    graphs = []

    def differentiate(inputs):
        graphs.append(weakref.ref(tf.compat.v1.get_default_graph()))
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = halved(inputs)
        return tape.gradient(value, inputs)

    for _ in range(3):
        traced = tf.function(differentiate, autograph=False)
        assert traced(tf.ones(3)).numpy().tolist() == [0.5] * 3
    del traced
    gc.collect()
    assert [graph() for graph in graphs] == [None] * 3


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_value_is_exact_to_the_last_bit(dtype, scale, compiled):
    inputs = tensor(np.random.default_rng(0).normal(scale=scale, size=100_000), dtype)
    function = surrogate_gradient(lambda inputs: inputs, lambda inputs: -0.7 * inputs)
    value, _ = value_and_gradients(function, inputs, compiled=compiled)
    assert np.count_nonzero(bits(value) != bits(inputs)) == 0


def test_known_limits_at_infinity_and_negative_zero():
    inputs = tensor([-np.inf, -0.0, np.inf, np.nan], "float32")
    identity = surrogate_gradient(lambda inputs: inputs, lambda inputs: -inputs)
    value, (gradient,) = value_and_gradients(identity, inputs)
    np.testing.assert_array_equal(value, [np.nan, 0.0, np.nan, np.nan])
    assert not np.signbit(value[1])
    assert gradient.tolist() == [-1.0] * 4
    bounded, _ = value_and_gradients(surrogate_gradient(lambda inputs: inputs, ops.tanh), inputs)
    np.testing.assert_array_equal(bounded, [-np.inf, 0.0, np.inf, np.nan])


def test_surrogate_may_read_the_variables_of_forward():
    weight, calls = keras.Variable([2.0]), keras.Variable(0.0, trainable=False)

    def counted(x):
        calls.assign_add(1.0)
        return x * weight

    shared = surrogate_gradient(lambda x: ops.sign(x * weight), counted)
    assert value_and_gradients(shared, tensor([3.0], "float32"))[1][0].tolist() == [2.0]
    assert float(calls) == 1  # although the surrogate runs twice


@pytest.mark.parametrize("compiled", [False, True])
def test_straight_through_draws_once(compiled):
    """With y = onehot(argmax(l + n)) and p = softmax(l + n): dL/dl = p * (u - sum(u p))."""
    upstream = np.float32([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]])
    logits = np.float32([[0.1, 2.0, 0.3], [0.0, -1.0, 0.5]])

    def gumbel_softmax(x):
        # A fixed seed, so that the expectation can draw the same noise.
        noise = -ops.log(-ops.log(keras.random.uniform((2, 3), seed=5)))
        probabilities = ops.softmax(x + noise)
        choice = ops.cast(ops.one_hot(ops.argmax(probabilities, axis=-1), 3), "int32")
        return gradients.straight_through(choice, probabilities)

    value, (gradient,) = value_and_gradients(
        gumbel_softmax, logits, upstream=upstream, compiled=compiled
    )
    noise = -np.log(-np.log(ops.convert_to_numpy(keras.random.uniform((2, 3), seed=5))))
    p = np.exp(logits + noise) / np.exp(logits + noise).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(value, np.eye(3)[p.argmax(axis=1)])
    expected = p * (upstream - (upstream * p).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "values", "slope"),
    [
        (lambda x: gradients.straight_through(ops.round(x), 3.0 * x), [0.0, 2.0], 3.0),
        (lambda x: reverse_gradient(x, 0.5, "stop_gradient"), [0.5, 1.75], -0.5),
    ],
)
def test_functions_apply_to_symbolic_inputs(function, values, slope):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, function(inputs))
    value, (gradient,) = value_and_gradients(model, tensor([[0.5, 1.75]], "float32"))
    assert (value.tolist(), gradient.tolist()) == ([values], [[slope, slope]])
