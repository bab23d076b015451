import numpy as np
import pytest
from keras import ops
from support.differentiate import bits, tensor, value_and_gradients

from dann.gradients import surrogate_gradient


@pytest.mark.parametrize("compiled", [False, True])
def test_the_value_is_of_forward_and_the_gradients_are_of_the_surrogate(compiled):
    function = surrogate_gradient(
        lambda first, second: first + second, lambda first, second: first**2 * second
    )
    given = tensor([2.0, 3.0], "float32"), tensor([5.0, 7.0], "float32")
    value, gradients = value_and_gradients(
        function, *given, upstream=[1.0, 10.0], compiled=compiled
    )
    assert value.tolist() == [7.0, 10.0]
    assert [gradient.tolist() for gradient in gradients] == [[20.0, 420.0], [4.0, 90.0]]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_value_is_exact_to_the_last_bit(dtype, scale, compiled):
    inputs = tensor(np.random.default_rng(0).normal(scale=scale, size=100_000), dtype)
    function = surrogate_gradient(lambda inputs: inputs, lambda inputs: -0.7 * inputs)
    value, _ = value_and_gradients(function, inputs, compiled=compiled)
    assert np.count_nonzero(bits(value) != bits(inputs)) == 0


def test_infinities_become_nan_unless_the_surrogate_is_bounded_and_negative_zero_positive():
    """The known limits; the override has neither."""
    inputs = tensor([-np.inf, -0.0, np.inf, np.nan], "float32")
    identity = surrogate_gradient(lambda inputs: inputs, lambda inputs: -inputs)
    value, (gradient,) = value_and_gradients(identity, inputs)
    np.testing.assert_array_equal(value, [np.nan, 0.0, np.nan, np.nan])
    assert not np.signbit(value[1])
    assert gradient.tolist() == [-1.0] * 4
    bounded, _ = value_and_gradients(surrogate_gradient(lambda inputs: inputs, ops.tanh), inputs)
    np.testing.assert_array_equal(bounded, [-np.inf, 0.0, np.inf, np.nan])
