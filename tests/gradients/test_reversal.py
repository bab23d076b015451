import functools

import keras
import numpy as np
import pytest
from keras import ops
from support.differentiate import (
    BACKEND,
    DTYPES,
    EDGES,
    IMPLEMENTATIONS,
    bits,
    derivative,
    tensor,
    value_and_gradients,
)

from dann.gradients import reverse_gradient


def reversal(strength, implementation):
    return functools.partial(reverse_gradient, strength=strength, implementation=implementation)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_the_value_stays_and_the_gradient_is_reversed(implementation, dtype, compiled):
    inputs = tensor(EDGES, dtype)
    upstream = np.linspace(-4.0, 6.0, len(EDGES))
    # 0.25 and these multiples of 1 are exact in every type.
    value, (gradient,) = value_and_gradients(
        reversal(0.25, implementation), inputs, upstream=upstream, compiled=compiled
    )
    np.testing.assert_array_equal(gradient.astype("float64"), -0.25 * upstream)
    if implementation == "stop_gradient":
        expected = [np.nan if np.isinf(x) else x + 0.0 for x in EDGES]
        np.testing.assert_array_equal(value.astype("float64"), expected)
    else:
        np.testing.assert_array_equal(bits(value), bits(inputs))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_nothing_overflows_near_the_end_of_float16(implementation, compiled):
    inputs = tensor([60000.0, -60000.0], "float16")
    value, (gradient,) = value_and_gradients(
        reversal(2.0, implementation), inputs, compiled=compiled
    )
    assert value.tolist() == [60000.0, -60000.0]
    assert gradient.tolist() == [-2.0, -2.0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS[1:])
def test_the_ways_agree_to_the_last_bit_on_finite_data(implementation, dtype):
    generator = np.random.default_rng(0)
    inputs = tensor(generator.normal(scale=10, size=1000), dtype)
    upstream = generator.normal(size=1000)
    results = [
        value_and_gradients(reversal(0.7, one), inputs, upstream=upstream)
        for one in ("override", implementation)
    ]
    (value, (gradient,)), (other_value, (other_gradient,)) = results
    np.testing.assert_array_equal(bits(other_value), bits(value))
    np.testing.assert_array_equal(bits(other_gradient), bits(gradient))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_higher_derivatives_compose_the_reversal(implementation):
    """(d/dx)^n of y + y^4 is (-strength)^n (d/dy)^n of it, on every backend."""

    def function(inputs):
        outputs = reverse_gradient(inputs, 0.5, implementation=implementation)
        return outputs + outputs**4

    inputs = tensor([-2.0, 0.0, 1.0, 3.0], "float32")
    first, second, third = (derivative(function, inputs, order) for order in (1, 2, 3))
    x = np.array([-2.0, 0.0, 1.0, 3.0])
    np.testing.assert_allclose(first, -0.5 * (1 + 4 * x**3))
    np.testing.assert_allclose(second, 0.5**2 * 12 * x**2)
    np.testing.assert_allclose(third, -(0.5**3) * 24 * x)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_strength_gets_no_gradient(implementation, compiled):
    function = functools.partial(reverse_gradient, implementation=implementation)
    inputs, strength = tensor([3.0, 4.0, 5.0], "float32"), tensor([0.5, 2.0, 0.0], "float32")
    _, gradients = value_and_gradients(function, inputs, strength, compiled=compiled)
    assert [gradient.tolist() for gradient in gradients] == [[-0.5, -2.0, 0.0], [0.0] * 3]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="counts TensorFlow traces")
@pytest.mark.parametrize("kind", ["tensor", "keras", "tensorflow", "trainable tensorflow"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_strength_that_changes_takes_one_trace(implementation, kind):
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


@pytest.mark.parametrize(
    ("strength", "error"),
    [(one, ValueError) for one in (-0.1, np.inf, np.nan, np.float32(-1.0))]
    + [(one, TypeError) for one in (True, "0.5", None, [0.5], np.array(-1.0))],
)
def test_a_strength_that_is_no_number_of_at_least_zero_is_refused(strength, error):
    with pytest.raises(error):
        reverse_gradient(tensor([1.0], "float32"), strength)


def test_an_unknown_way_and_integers_are_refused():
    for dtype, implementation, error in (
        ("float32", "ste", ValueError),
        ("int32", "override", TypeError),
    ):
        with pytest.raises(error):
            reverse_gradient(ops.array([1, 2], dtype), implementation=implementation)


@pytest.mark.skipif(BACKEND != "jax", reason="forward mode of JAX")
def test_stop_gradient_has_the_forward_mode_of_jax():
    import jax

    inputs = tensor([1.0, 2.0], "float32")
    assert jax.jacfwd(reversal(0.5, "stop_gradient"))(inputs).tolist() == [[-0.5, 0], [0, -0.5]]
