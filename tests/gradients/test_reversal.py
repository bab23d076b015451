import functools

import keras
import numpy as np
import pytest
from keras import ops
from support import differentiate
from support.differentiate import BACKEND, IMPLEMENTATIONS, bits, tensor, value_and_gradients

from dann.gradients import binary_sign, override_gradient, reverse_gradient, straight_through
from dann.gradients.estimators import EDE, DoReFa
from dann.gradients.estimators.identifiers import get_estimator, get_kernel_estimator
from dann.gradients.reversal import reject_synonyms

parametrize_implementation = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
parametrize_compiled = pytest.mark.parametrize("compiled", [False, True])


def reversal(strength, implementation):
    return functools.partial(reverse_gradient, strength=strength, implementation=implementation)


@parametrize_compiled
@pytest.mark.parametrize("dtype", differentiate.DTYPES)
@parametrize_implementation
def test_value_stays_and_gradient_is_reversed(implementation, dtype, compiled):
    inputs = tensor(differentiate.EDGES, dtype)
    upstream = np.linspace(-4.0, 6.0, len(differentiate.EDGES))
    # 0.25 and these multiples of 1 are exact in every type.
    value, (gradient,) = value_and_gradients(
        reversal(0.25, implementation), inputs, upstream=upstream, compiled=compiled
    )
    np.testing.assert_array_equal(gradient.astype("float64"), -0.25 * upstream)
    if implementation == "stop_gradient":
        expected = [np.nan if np.isinf(x) else x + 0.0 for x in differentiate.EDGES]
        np.testing.assert_array_equal(value.astype("float64"), expected)
    else:
        np.testing.assert_array_equal(bits(value), bits(inputs))


@pytest.mark.parametrize("dtype", differentiate.DTYPES)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS[1:])
def test_implementations_agree_to_the_last_bit(implementation, dtype):
    generator = np.random.default_rng(0)
    inputs = tensor(generator.normal(scale=10, size=1000), dtype)
    upstream = generator.normal(size=1000)
    function, reference = reversal(0.7, implementation), reversal(0.7, "override")
    value, (gradient,) = value_and_gradients(function, inputs, upstream=upstream)
    expected, (expected_gradient,) = value_and_gradients(reference, inputs, upstream=upstream)
    np.testing.assert_array_equal(bits(value), bits(expected))
    np.testing.assert_array_equal(bits(gradient), bits(expected_gradient))


@parametrize_implementation
def test_higher_derivatives_compose_the_reversal(implementation):
    """(d/dx)^n of y + y^4 is (-strength)^n (d/dy)^n of y + y^4."""

    def function(inputs):
        outputs = reverse_gradient(inputs, 0.5, implementation=implementation)
        return outputs + outputs**4

    inputs = tensor([-2.0, 0.0, 1.0, 3.0], "float32")
    first, second, third = (differentiate.derivative(function, inputs, n) for n in (1, 2, 3))
    x = np.array([-2.0, 0.0, 1.0, 3.0])
    np.testing.assert_allclose(first, -0.5 * (1 + 4 * x**3))
    np.testing.assert_allclose(second, 0.5**2 * 12 * x**2)
    np.testing.assert_allclose(third, -(0.5**3) * 24 * x)


@parametrize_compiled
@parametrize_implementation
def test_strength_gets_no_gradient(implementation, compiled):
    function = functools.partial(reverse_gradient, implementation=implementation)
    inputs, strength = tensor([3.0, 4.0, 5.0], "float32"), tensor([0.5, 2.0, 0.0], "float32")
    _, gradients = value_and_gradients(function, inputs, strength, compiled=compiled)
    assert [gradient.tolist() for gradient in gradients] == [[-0.5, -2.0, 0.0], [0.0] * 3]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="counts TensorFlow traces")
@pytest.mark.parametrize("kind", ["tensor", "keras", "tensorflow", "trainable tensorflow"])
@parametrize_implementation
def test_strength_change_takes_no_trace(implementation, kind):
    import tensorflow as tf

    make = keras.Variable if kind == "keras" else tf.Variable
    variable, traces = make(0.0, trainable=kind.startswith("trainable")), []

    @tf.function(autograph=False)
    def gradient(inputs, number):
        traces.append(implementation)
        strength = number if kind == "tensor" else variable
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = reverse_gradient(inputs, strength, implementation=implementation)
        return tape.gradient(outputs, inputs)

    for value in (0.25, 0.5, 3.0):
        variable.assign(value)
        assert gradient(tf.ones(2), tf.constant(value)).numpy().tolist() == [-value, -value]
    assert len(traces) == 1


@pytest.mark.skipif(BACKEND != "jax", reason="forward mode of JAX")
def test_stop_gradient_supports_forward_mode_of_jax():
    import jax

    inputs = tensor([1.0, 2.0], "float32")
    assert jax.jacfwd(reversal(0.5, "stop_gradient"))(inputs).tolist() == [[-0.5, 0], [0, -0.5]]


@parametrize_compiled
@parametrize_implementation
def test_nothing_overflows_near_the_end_of_float16(implementation, compiled):
    inputs = tensor([60000.0, -60000.0], "float16")
    function = reversal(2.0, implementation)
    value, (gradient,) = value_and_gradients(function, inputs, compiled=compiled)
    assert value.tolist() == [60000.0, -60000.0]
    assert gradient.tolist() == [-2.0, -2.0]


NUMBER = np.ones(1, "float32")
WEIGHT = keras.Variable([2.0], name="kernel")


def differentiate_with(result):
    """Differentiates a function of two inputs whose `backward` returns `result`."""

    def wrong_backward(upstream, first, second):
        return result

    function = override_gradient(lambda first, second: first, wrong_backward)
    value_and_gradients(function, tensor([1.0], "float32"), tensor([1.0], "float32"))


def first(*inputs):
    return inputs[0]


def times_weight(inputs):
    return inputs * WEIGHT


def forward_with_two_outputs(inputs):
    return inputs, inputs


def save_activation(activation):
    keras.Sequential([keras.layers.Dense(1, activation=activation)]).to_json()


def register_twice():
    register = keras.saving.register_keras_serializable("test")
    functions = [register(override_gradient(first, first, name="same")) for _ in range(2)]
    return functions[0]


REFUSALS = [
    (lambda: differentiate_with((1, 2, 3)), "each of the 2 inputs. Received: 3 gradients"),
    (
        lambda: differentiate_with((tensor([1.0, 2.0], "float32"), tensor([1.0], "float32"))),
        r"`wrong_backward` to return .* Received: \(2,\) for an input \(1,\)",
    ),
    (lambda: override_gradient(first, first, name="tanh"), "activations of Keras.*name='tanh'"),
    (lambda: override_gradient(forward_with_two_outputs, first)(NUMBER), "return one tensor"),
    (lambda: override_gradient(times_weight, first)(NUMBER), r"as inputs.*reads \['kernel'\]"),
    (lambda: save_activation(override_gradient(first, lambda u, x: u)), "registered under a uni"),
    (lambda: save_activation(register_twice()), "test>same, .* names another function"),
    (lambda: straight_through(NUMBER, np.ones(1, "int32")), "through other types.*dtype=int32"),
    (lambda: straight_through(NUMBER, np.ones(2, "float32")), r"shapes \(2,\) and \(1,\)"),
    (lambda: reverse_gradient(NUMBER, -0.1), ">= 0, because the reversal .*: strength=-0.1"),
    (lambda: reverse_gradient(NUMBER, "0.3"), "0, a tensor .* in layers. Received: strength='0.3'"),
    (lambda: reverse_gradient(NUMBER, implementation="ste"), "one of 'override', .*'ste'"),
    (lambda: reverse_gradient(ops.array([1, 2])), "no gradient flows .* Received: dtype=int32"),
    (lambda: reverse_gradient(keras.Input((1,))), "functional model, use .*GradientReversal"),
    (lambda: override_gradient(first, first)(NUMBER, k=3), "by position. Received: k by name"),
    (lambda: reject_synonyms({"alpha": 1}), "Write `strength` for `alpha`. Received: alpha"),
    (lambda: get_estimator("ste"), "`estimator` to be one of 'approx_sign', .*'ste'"),
    (lambda: EDE(low=2, high=1), "`high` to be .* >= 2.*, because .* Received: high=1"),
    (lambda: get_kernel_estimator(DoReFa(), [-1]), "negative values .*DoReFa.mode='kernel'"),
    (lambda: binary_sign(NUMBER, sharpness=2.0), "takes no `sharpness`. Received: sharpness=2.0"),
    (lambda: binary_sign(NUMBER, estimator="ede", seed=1), "takes no `seed`. Received: seed=1"),
    (lambda: binary_sign(NUMBER, estimator="ede", sharpness=-1.0), "`sharpness` to be .* > 0"),
]


@pytest.mark.parametrize(("call", "words"), REFUSALS, ids=[words for _, words in REFUSALS])
def test_refusal_names_the_remedy(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_refusal_in_compiled_function():
    function = override_gradient(lambda x: x, lambda upstream, x: 0)
    with pytest.raises(TypeError, match="return a tensor for each input. Received: int"):
        value_and_gradients(function, tensor([1.0], "float32"), compiled=True)
