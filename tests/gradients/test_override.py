import gc

import keras
import numpy as np
import pytest
from keras import ops
from support.differentiate import BACKEND, DTYPES, bits, tensor, value_and_gradients

from dann.gradients import override_gradient

EDGES = [-np.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan]

halved = override_gradient(lambda inputs: inputs, lambda upstream, inputs: upstream / 2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_value_is_that_of_forward_to_the_last_bit(dtype, compiled):
    inputs = tensor(EDGES, dtype)
    value, (gradient,) = value_and_gradients(halved, inputs, compiled=compiled)
    np.testing.assert_array_equal(bits(value), bits(inputs))
    np.testing.assert_array_equal(gradient, np.full(len(EDGES), 0.5, gradient.dtype))


@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_is_backward_of_upstream_and_inputs(compiled):
    # Backward of `square`, with the sign of the inputs in the place of twice the inputs.
    function = override_gradient(
        lambda inputs: inputs * inputs, lambda upstream, inputs: upstream * ops.sign(inputs)
    )
    inputs, upstream = tensor([-3.0, 0.0, 0.5], "float32"), [10.0, 20.0, 30.0]
    value, (gradient,) = value_and_gradients(function, inputs, upstream=upstream, compiled=compiled)
    assert value.tolist() == [9.0, 0.0, 0.25]
    assert gradient.tolist() == [-10.0, 0.0, 30.0]


@pytest.mark.parametrize("compiled", [False, True])
def test_several_inputs_get_a_gradient_each(compiled):
    function = override_gradient(
        lambda first, second: first + second,
        lambda upstream, first, second: (upstream * second, upstream * first * 100),
    )
    first, second = tensor([1.0, 2.0], "float32"), tensor([3.0, 4.0], "float32")
    value, gradients = value_and_gradients(function, first, second, compiled=compiled)
    assert value.tolist() == [4.0, 6.0]
    assert [gradient.tolist() for gradient in gradients] == [[3.0, 4.0], [100.0, 200.0]]


def test_the_chain_rule_continues_around_it():
    def function(inputs):
        return 3.0 * halved(inputs * inputs)

    _, (gradient,) = value_and_gradients(function, tensor([5.0], "float32"))
    assert gradient.tolist() == [3.0 * 0.5 * 2 * 5.0]


@pytest.mark.parametrize(
    ("given", "named"), [(0, "0 of type int"), (None, "None of type NoneType")]
)
def test_a_backward_without_a_tensor_is_refused(given, named):
    def forgetful(upstream, inputs):
        return given

    function = override_gradient(lambda inputs: inputs, forgetful)
    message = (
        r"Gradient function `forgetful` must return a tensor for each input; for no gradient "
        rf"return `keras.ops.zeros_like\(input\)`, not a Python number. Received: {named}"
    )
    with pytest.raises(TypeError, match=message):
        value_and_gradients(function, tensor([1.0], "float32"))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_backward_with_too_few_gradients_is_refused(compiled):
    def short(upstream, first, second):
        return upstream

    function = override_gradient(lambda first, second: first, short)
    message = "`short` must return one gradient for each of the 2 inputs. Received: 1 gradients"
    with pytest.raises(ValueError, match=message):
        value_and_gradients(
            function, tensor([1.0], "float32"), tensor([1.0], "float32"), compiled=compiled
        )


def test_a_variable_is_an_input_like_any_other():
    function = override_gradient(
        lambda inputs, scale: inputs,
        lambda upstream, inputs, scale: (upstream * scale, ops.zeros_like(scale)),
    )
    scale = keras.Variable(2.0, trainable=False)

    def scaled(inputs):
        return function(inputs, scale)

    for expected in (2.0, 5.0):
        scale.assign(expected)
        _, (gradient,) = value_and_gradients(scaled, tensor([1.0], "float32"))
        assert gradient.tolist() == [expected]


def live_graphs(tf):
    gc.collect()
    graph = type(tf.function(lambda: 0).get_concrete_function().graph)
    return sum(type(item) is graph for item in gc.get_objects())


def growth_in_thirty_traces(tf, function):
    """How many graphs are left over by 30 `tf.function`s around `function` that are gone."""

    def trace():
        @tf.function(autograph=False)
        def differentiate(inputs):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                value = function(inputs)
            return tape.gradient(value, inputs)

        assert differentiate(tf.ones(3)).numpy().tolist() == [0.5] * 3

    for _ in range(3):
        trace()
    before = live_graphs(tf)
    for _ in range(30):
        trace()
    return live_graphs(tf) - before


@pytest.mark.skipif(BACKEND != "tensorflow", reason="counts TensorFlow graphs")
def test_the_graphs_of_earlier_traces_are_freed():
    import tensorflow as tf

    @tf.custom_gradient
    def bare(inputs):
        return tf.identity(inputs), lambda upstream: upstream / 2

    assert growth_in_thirty_traces(tf, halved) == 0
    # What TensorFlow does without the graph of its own; it shows that the count can fail.
    assert growth_in_thirty_traces(tf, bare) >= 30


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
