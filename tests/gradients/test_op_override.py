"""The classical examples of overridden operations, and the traps of TensorFlow around them."""

import keras
import pytest
from support.differentiate import value_and_gradients

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("overrides TensorFlow operations", allow_module_level=True)

from dann.gradients import override_op_gradients  # noqa: E402

EDGES = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]
SIGNS = [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0]
HTANH = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]


@tf.RegisterGradient("QuantizeGradOfTests")
def quantize_gradient(op, upstream):
    return tf.where(tf.abs(op.inputs[0]) <= 1.0, upstream, tf.zeros_like(upstream))


@pytest.mark.parametrize("gradient", ["QuantizeGradOfTests", quantize_gradient])
def test_sign_gets_the_gradient_of_htanh(gradient):
    sign = override_op_gradients(tf.sign, {"Sign": gradient})
    value, (gradient,) = value_and_gradients(sign, EDGES)
    assert (value.tolist(), gradient.tolist()) == (SIGNS, HTANH)


def test_all_operations_of_the_types_are_overridden_and_no_other():
    def function(inputs):
        return tf.sign(inputs) + tf.sign(2.0 * inputs) + inputs * inputs + tf.round(inputs)

    times_ten, times_five = (lambda op, upstream, n=n: n * upstream for n in (10.0, 5.0))
    overridden = override_op_gradients(function, {"Sign": times_ten, "Round": times_five})
    # 10 from the first sign, 20 from the second, 2 * 3 from the square, 5 from the rounding.
    value, (gradient,) = value_and_gradients(overridden, [3.0])
    assert (value.tolist(), gradient.tolist()) == ([14.0], [10.0 + 20.0 + 6.0 + 5.0])


@pytest.mark.parametrize(
    ("function", "gradient", "error", "message"),
    [
        (tf.sign, lambda op, upstream: 0, TypeError, "must return a tensor.*: int"),
        (tf.tanh, "QuantizeGradOfTests", ValueError, "Sign.*Received: .'Tanh'."),
        (tf.sign, "Quantise", LookupError, "Sign"),
    ],
)
def test_what_overrides_nothing_is_refused(function, gradient, error, message):
    with pytest.raises(error, match=message):
        value_and_gradients(override_op_gradients(function, {"Sign": gradient}), EDGES)
