import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops
from support.differentiate import BACKEND, DTYPES, EDGES, bits, tensor, value_and_gradients

from dann.gradients import binary_sign, override_gradient, reverse_gradient, surrogate_gradient

halved = override_gradient(lambda inputs: inputs, lambda upstream, inputs: upstream / 2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_value_equals_forward_to_the_last_bit(dtype, compiled):
    inputs = tensor(EDGES, dtype)
    value, (gradient,) = value_and_gradients(halved, inputs, compiled=compiled)
    np.testing.assert_array_equal(bits(value), bits(inputs))
    np.testing.assert_array_equal(gradient, np.full(len(EDGES), 0.5, gradient.dtype))


@pytest.mark.parametrize("compiled", [False, True])
def test_backward_gets_upstream_and_all_inputs(compiled):
    function = override_gradient(
        lambda first, second: first + second,
        lambda upstream, first, second: (upstream * second, upstream * first * 100),
    )
    inputs = tensor([1.0, 2.0], "float32"), tensor([3.0, 4.0], "float32")
    value, gradients = value_and_gradients(
        function, *inputs, upstream=[10.0, 20.0], compiled=compiled
    )
    assert value.tolist() == [4.0, 6.0]
    assert [gradient.tolist() for gradient in gradients] == [[30.0, 80.0], [1000.0, 4000.0]]


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
        binary_sign,
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
