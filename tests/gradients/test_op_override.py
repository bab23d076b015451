"""Classical examples of overridden operations, and traps of TensorFlow around them."""

import keras
import pytest
from support.differentiate import value_and_gradients

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("overrides TensorFlow operations", allow_module_level=True)

from dann.gradients import override_op_gradients  # noqa: E402


@tf.RegisterGradient("ProductGradOfTests")
def product_gradient(op, upstream):
    return 5.0 * upstream * op.inputs[1], 7.0 * upstream * op.inputs[0]


def test_registered_gradient_of_two_inputs():
    function = override_op_gradients(tf.multiply, {"Mul": "ProductGradOfTests"})
    _, gradients = value_and_gradients(function, [2.0], [3.0])
    assert [gradient.tolist() for gradient in gradients] == [[15.0], [14.0]]


def test_only_operations_of_the_types_are_overridden():
    def function(inputs):
        return tf.sign(inputs) + tf.sign(2.0 * inputs) + inputs * inputs + tf.round(inputs)

    times_ten, times_five = (lambda op, upstream, n=n: n * upstream for n in (10.0, 5.0))
    overridden = override_op_gradients(function, {"Sign": times_ten, "Round": times_five})
    # 10 from the first sign, 20 from the second, 2 * 3 from the square, 5 from the rounding.
    value, (gradient,) = value_and_gradients(overridden, [3.0])
    assert (value.tolist(), gradient.tolist()) == ([14.0], [10.0 + 20.0 + 6.0 + 5.0])


@pytest.mark.parametrize(
    ("function", "gradient", "words"),
    [
        (tf.sign, lambda op, upstream: 0, "return a tensor for each input. Received: int"),
        (
            tf.tanh,
            "ProductGradOfTests",
            r"^Expected .*\['Sign'\].*: \['Tanh'\], without \['Sign'\]",
        ),
    ],
)
def test_override_without_effect_is_refused(function, gradient, words):
    with pytest.raises((TypeError, ValueError), match=words):
        value_and_gradients(override_op_gradients(function, {"Sign": gradient}), [1.0])


def test_unregistered_name_is_refused_at_once():
    with pytest.raises(LookupError, match="`tf.RegisterGradient` registered. Received: 'typo'"):
        override_op_gradients(tf.identity, {"Identity": "typo"})
