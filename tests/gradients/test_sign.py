import functools

import numpy as np
import pytest
from support.differentiate import WAYS, derivative, tensor, value_and_gradients

from dann.gradients import binary_sign


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [1, 5, 16])
@pytest.mark.parametrize("way", WAYS)
def test_subnormal_numbers_get_a_sign(way, size, compiled):
    """TensorFlow's own vectorised `tf.sign` gives the subnormal back."""
    inputs = np.full(size, -1e-40, "float32")
    sign = functools.partial(binary_sign, way=way)
    value, (gradient,) = value_and_gradients(sign, inputs, compiled=compiled)
    assert set(np.abs(value).tolist()) == {1.0}
    assert gradient.tolist() == [1.0] * size


@pytest.mark.parametrize("way", WAYS)
def test_the_second_derivative_composes_that_of_htanh(way):
    """The second of y + y^3 is 6 y within the clip, on every backend."""

    def function(inputs):
        outputs = binary_sign(inputs, way=way)
        return outputs + outputs**3

    inputs = tensor([-2.0, -1.0, -0.5, 0.0, 1.0, 2.0], "float32")
    assert derivative(function, inputs, 1).tolist() == [0.0, 4.0, 4.0, 4.0, 4.0, 0.0]
    assert derivative(function, inputs, 2).tolist() == [0.0, -6.0, -6.0, 6.0, 6.0, 0.0]
