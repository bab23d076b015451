import keras
import numpy as np
import pytest
from keras import ops
from support.differentiate import bits, tensor, value_and_gradients

from dann.gradients import reverse_gradient, straight_through, surrogate_gradient


@pytest.mark.parametrize("compiled", [False, True])
def test_value_of_forward_and_gradients_of_surrogate(compiled):
    function = surrogate_gradient(
        lambda first, second: first + second, lambda first, second: first**2 * second
    )
    inputs = tensor([2.0, 3.0], "float32"), tensor([5.0, 7.0], "float32")
    value, gradients = value_and_gradients(
        function, *inputs, upstream=[1.0, 10.0], compiled=compiled
    )
    assert value.tolist() == [7.0, 10.0]
    assert [gradient.tolist() for gradient in gradients] == [[20.0, 420.0], [4.0, 90.0]]


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
        return straight_through(choice, probabilities)

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
        (lambda x: straight_through(ops.round(x), 3.0 * x), [0.0, 2.0], 3.0),
        (lambda x: reverse_gradient(x, 0.5, "stop_gradient"), [0.5, 1.75], -0.5),
    ],
)
def test_functions_apply_to_symbolic_inputs(function, values, slope):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, function(inputs))
    value, (gradient,) = value_and_gradients(model, tensor([[0.5, 1.75]], "float32"))
    assert (value.tolist(), gradient.tolist()) == ([values], [[slope, slope]])
