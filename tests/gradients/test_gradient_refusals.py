import keras
import numpy as np
import pytest
from keras import ops
from support.differentiate import tensor, value_and_gradients

from dann.gradients import binary_sign, override_gradient, reverse_gradient, straight_through
from dann.gradients.estimators import EDE, DoReFa, get_estimator
from dann.gradients.estimators.identifiers import get_kernel_estimator
from dann.gradients.reversal import reject_synonyms

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
    (
        lambda: straight_through(NUMBER, np.ones(2, "float32")),
        r"Received: shapes \(2,\) and \(1,\)",
    ),
    (lambda: reverse_gradient(NUMBER, -0.1), ">= 0, because the reversal .*: strength=-0.1"),
    (lambda: reverse_gradient(NUMBER, implementation="ste"), "one of 'override', .*'ste'"),
    (lambda: reverse_gradient(ops.array([1, 2])), "no gradient flows .* Received: dtype=int32"),
    (lambda: reverse_gradient(keras.Input((1,))), "functional model, use .*GradientReversal"),
    (lambda: binary_sign(keras.Input((1,))), "Received: a KerasTensor"),
    (lambda: override_gradient(first, first)(keras.Input((1,))), "Received: a KerasTensor"),
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
