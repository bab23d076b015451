import keras
import numpy as np
import pytest
from keras import ops
from support.differentiate import (
    BACKEND,
    DTYPES,
    WAYS,
    bits,
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("way", WAYS)
def test_value_and_gradient_on_random_numbers(way, scale, dtype):
    inputs = tensor(np.random.default_rng(0).normal(scale=scale, size=100_000), dtype)
    value, (gradient,) = value_and_gradients(sign_by(way), inputs)
    rounded = np.asarray(inputs).astype("float64")
    np.testing.assert_array_equal(value.astype("float64"), np.where(rounded >= 0, 1, -1))
    np.testing.assert_array_equal(gradient.astype("float64"), abs(rounded) <= 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_the_neighbours_of_one_lie_on_their_sides(way, dtype):
    one = np.asarray(tensor([1.0], dtype))
    below, above = (np.nextafter(one, one * end) for end in (0, 2))
    inputs = np.concatenate([below, above, -below, -above])
    _, (gradient,) = value_and_gradients(sign_by(way), inputs)
    assert gradient.astype("float64").tolist() == [1.0, 0.0, 1.0, 0.0]


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
def test_an_infinite_upstream_stays_behind_the_mask(way):
    inputs = tensor([-2.0, 0.5, 2.0], "float32")
    _, (gradient,) = value_and_gradients(
        sign_by(way), inputs, upstream=np.array([np.inf, np.inf, np.inf])
    )
    assert gradient.tolist() == [0.0, np.inf, 0.0]


@pytest.mark.parametrize("way", WAYS)
def test_the_second_derivative_composes_that_of_htanh(way):
    """The second of y + y^3 is 6 y within the clip, on every backend."""

    def function(inputs):
        outputs = binary_sign(inputs, way=way)
        return outputs + outputs**3

    inputs = tensor([-2.0, -1.0, -0.5, 0.0, 1.0, 2.0], "float32")
    assert derivative(function, inputs, 1).tolist() == [0.0, 4.0, 4.0, 4.0, 4.0, 0.0]
    assert derivative(function, inputs, 2).tolist() == [0.0, -6.0, -6.0, 6.0, 6.0, 0.0]


@pytest.mark.parametrize("way", WAYS[1:])
def test_the_ways_agree_to_the_last_bit(way):
    inputs = tensor(np.random.default_rng(0).normal(size=1000), "float32")
    upstream = np.random.default_rng(1).normal(size=1000)
    value, (gradient,) = value_and_gradients(sign_by("override"), inputs, upstream=upstream)
    other_value, (other,) = value_and_gradients(sign_by(way), inputs, upstream=upstream)
    np.testing.assert_array_equal(bits(other_value), bits(value))
    np.testing.assert_array_equal(other, gradient)


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="`way` must be .*'stop_gradient'.*Received: way='ste'"):
        binary_sign(tensor([1.0], "float32"), way="ste")


def test_integers_are_refused():
    with pytest.raises(TypeError, match="Expected a floating-point tensor.*Received: dtype=int32"):
        binary_sign(ops.array([1, 2], "int32"))


def test_a_symbolic_tensor_is_sent_to_the_layer():
    with pytest.raises(TypeError, match="`dann.layers.BinarySign`"):
        binary_sign(keras.Input((3,)))


@pytest.mark.skipif(BACKEND == "tensorflow", reason="works there")
def test_op_override_names_the_alternatives_on_other_backends():
    with pytest.raises(ImportError, match="use `way='override'` or `way='stop_gradient'`"):
        binary_sign(tensor([1.0], "float32"), way="op_override")
