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
def test_the_value_is_that_of_forward_to_the_last_bit(dtype, compiled):
    inputs = tensor(EDGES, dtype)
    value, (gradient,) = value_and_gradients(halved, inputs, compiled=compiled)
    np.testing.assert_array_equal(bits(value), bits(inputs))
    np.testing.assert_array_equal(gradient, np.full(len(EDGES), 0.5, gradient.dtype))


@pytest.mark.parametrize("compiled", [False, True])
def test_each_input_gets_what_backward_makes_of_upstream_and_inputs(compiled):
    function = override_gradient(
        lambda first, second: first + second,
        lambda upstream, first, second: (upstream * second, upstream * first * 100),
    )
    given = tensor([1.0, 2.0], "float32"), tensor([3.0, 4.0], "float32")
    value, gradients = value_and_gradients(
        function, *given, upstream=[10.0, 20.0], compiled=compiled
    )
    assert value.tolist() == [4.0, 6.0]
    assert [gradient.tolist() for gradient in gradients] == [[30.0, 80.0], [1000.0, 4000.0]]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("given", "error"),
    [
        (0, TypeError),
        (None, TypeError),
        (np.ones(1, "float32"), TypeError),
        ((1, 2, 3), ValueError),
        (tensor([1.0], "float32"), ValueError),
        ((tensor([1.0, 2.0], "float32"), tensor([1.0], "float32")), ValueError),
        ((tensor([1.0], "float32"), tensor(1.0, "float32")), ValueError),
    ],
)
def test_a_backward_without_a_tensor_for_each_input_is_named(given, error, compiled):
    def forgetful(upstream, first, second):
        return given if isinstance(given, tuple) or error is ValueError else (given, given)

    function = override_gradient(lambda first, second: first, forgetful)
    inputs = [tensor([1.0], "float32")] * 2
    with pytest.raises(error, match="`forgetful` must return .* Received: "):
        value_and_gradients(function, *inputs, compiled=compiled)


@pytest.mark.parametrize("make", [override_gradient, surrogate_gradient])
def test_inputs_by_name_are_refused(make):
    function = make(lambda x: x, lambda *inputs: inputs[0], name="half")
    with pytest.raises(TypeError, match="inputs of `half` by position. Received by name: x"):
        function(x=tensor([1.0], "float32"))


def test_the_name_of_an_activation_of_keras_is_refused():
    with pytest.raises(ValueError, match="'tanh'"):
        override_gradient(half, plain, name="tanh")


@pytest.mark.parametrize("make", [override_gradient, surrogate_gradient])
def test_a_trainable_variable_that_would_get_no_gradient_is_refused(make):
    weight, frozen = (keras.Variable([2.0], trainable=trainable) for trainable in (True, False))
    draws = keras.random.SeedGenerator(0)
    function = make(lambda x: x * weight, lambda *inputs: inputs[0])
    with pytest.raises(ValueError, match=r"as inputs.*'variable"):
        function(tensor([1.0], "float32"))

    def noisy(x):
        return frozen * x + keras.random.uniform((1,), seed=draws)

    found = [make(noisy, lambda *xs: xs[0])(tensor([1.0], "float32")) for _ in range(2)]
    assert 2 < float(found[0][0]) != float(found[1][0]) > 2  # the generator's state moves on
    steps = keras.Variable(0.0, trainable=False)

    def counted(x):
        steps.assign_add(1.0)
        return x * weight

    shared = surrogate_gradient(lambda x: ops.sign(x * weight), counted)
    assert value_and_gradients(shared, tensor([3.0], "float32"))[1][0].tolist() == [2.0]
    assert float(steps) == 1  # though it is looked at twice


@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_has_the_type_of_its_input(compiled):
    function = override_gradient(lambda x: x, lambda u, x: ops.cast(u, "float16") / 3)
    _, (gradient,) = value_and_gradients(function, tensor([1.0], "float32"), compiled=compiled)
    assert gradient.dtype == "float32"
    assert gradient[0] == np.float16(1 / 3)


def taken():
    """Registered, and then another one under the same name."""
    register = keras.saving.register_keras_serializable("test")
    return [register(override_gradient(half, plain, name="taken")) for _ in range(2)][0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: override_gradient(half, lambda u, x: u),
        lambda: override_gradient(half, plain),  # as another of its parts is called
        lambda: surrogate_gradient(half, half, name="mine"),
        taken,
    ],
)
def test_a_function_that_a_file_would_load_as_another_is_not_saved(make, tmp_path):
    """Keras saves functions by name."""
    layer = keras.layers.Dense(1, activation=make())
    with pytest.raises(TypeError, match="give it a `name=` of its own and register it"):
        keras.Sequential([keras.Input((1,)), layer]).save(tmp_path / "model.keras")


def test_a_forward_of_several_outputs_is_refused():
    with pytest.raises(TypeError, match="must return one tensor"):
        override_gradient(lambda x: (x, x), plain)(tensor([1.0], "float32"))


def swapped(upstream, inputs, kernel):
    """Three times the gradient of the kernel, and minus that of the inputs."""
    of_inputs = ops.matmul(upstream, ops.transpose(kernel))
    return -of_inputs, 3.0 * ops.matmul(ops.transpose(inputs), upstream)


class Product(keras.layers.Layer):
    multiply = staticmethod(override_gradient(ops.matmul, swapped))

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], 2), initializer="ones")

    def call(self, inputs):
        return self.multiply(inputs, self.kernel)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize(
    "mode", [{"run_eagerly": True}, {"jit_compile": False}, {"jit_compile": True}]
)
def test_a_keras_variable_is_an_input_like_any_other(mode, policy):
    if mode.get("jit_compile") and BACKEND == "torch":
        pytest.skip("Keras compiles nothing there")
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


def test_functions_in_one_file_keep_their_places(tmp_path):
    """Two backward passes of one forward, a surrogate of it, and one with a name of its own."""
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
    for place, slope in enumerate([1.0, 3.0, 1.0, 5.0, 1.0, -1.0]):
        function = loaded.layers[1 + place].activation
        _, (gradient,) = value_and_gradients(function, tensor([0.5], "float32"))
        assert gradient.tolist() == [slope], place


@pytest.mark.skipif(BACKEND != "tensorflow", reason="counts TensorFlow graphs")
def test_the_graphs_of_earlier_traces_are_freed():
    """A bare `tf.custom_gradient` keeps them all."""
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


@pytest.mark.skipif(BACKEND != "tensorflow", reason="counts TensorFlow traces")
def test_other_shapes_take_two_traces_in_all():
    import tensorflow as tf

    traces = []

    def forward(inputs):
        traces.append(inputs.shape)
        return inputs

    function = override_gradient(forward, lambda upstream, inputs: upstream / 2)
    for size in range(1, 9):
        function(tf.ones((size, 3)))
    assert len(traces) == 2
