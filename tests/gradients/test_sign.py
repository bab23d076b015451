import numpy as np
import pytest
from support.differentiate import (
    DTYPES,
    WAYS,
    derivative,
    tensor,
    value_and_gradients,
)

from dann.gradients import binary_sign

EDGES = [-np.inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan]


@np.vectorize
def judged_sign(x):
    if np.isnan(x):
        return x
    return 1.0 if x >= 0 else -1.0


@np.vectorize
def judged_gradient(x):
    return 0.0 if np.isnan(x) or abs(x) > 1 else 1.0


def sign_by(way):
    def function(inputs):
        return binary_sign(inputs, way=way)

    return function


def test_the_judge_is_right_at_the_edges():
    assert judged_sign(EDGES[:-1]).tolist() == [-1, -1, -1, -1, 1, 1, 1, 1, 1, 1]
    assert judged_gradient(EDGES).tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_value_and_gradient_at_the_edges(way, dtype, compiled):
    upstream = np.linspace(-4.0, 6.0, len(EDGES))
    value, (gradient,) = value_and_gradients(
        sign_by(way), tensor(EDGES, dtype), upstream=upstream, compiled=compiled
    )
    np.testing.assert_array_equal(value.astype("float64"), judged_sign(EDGES))
    np.testing.assert_array_equal(gradient.astype("float64"), upstream * judged_gradient(EDGES))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [1, 5, 16])
@pytest.mark.parametrize("way", WAYS)
def test_subnormal_numbers_get_a_sign(way, size, compiled):
    """TensorFlow's own vectorised `tf.sign` gives the subnormal back."""
    inputs = np.full(size, -1e-40, "float32")
    value, (gradient,) = value_and_gradients(sign_by(way), inputs, compiled=compiled)
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
