import numpy as np
import pytest
from support.differentiate import as_array as array

from dann.autodiff import gradients
from dann.layers import RPReLU, RSign

INPUTS = np.array([[[-2.0, 0.5], [-0.5, 0.25]], [[0.0, 1.0], [3.0, -1.0]]], "float32")
UPSTREAM = np.array([[[1.0, -2.0], [3.0, 4.0]], [[5.0, -6.0], [7.0, 8.0]]], "float32")


def reshape_channels(values, axis):
    return np.float32(values).reshape((2, 1) if axis == 1 else (1, 2))


def sum_per_channel(array, axis):
    """Returns the sum over all axes but the axis of the channels."""
    return array.sum(axis=tuple(index for index in range(3) if index != axis % 3))


def outputs_and_gradients(layer):
    weights = [array(weight) for weight in layer.trainable_variables]

    def call(inputs, *weights):
        return layer.stateless_call(list(weights), [], inputs)[0]

    slopes = gradients(call, [INPUTS, *weights], [UPSTREAM])
    return array(layer(INPUTS)), [array(slope) for slope in slopes]


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("estimator", ["htanh", "approx_sign"])
def test_rsign_threshold_gets_the_opposite_gradient(estimator, axis):
    layer = RSign(axis=axis, estimator=estimator)
    layer.build(INPUTS.shape)
    assert array(layer.threshold).tolist() == np.zeros_like(reshape_channels([0, 0], axis)).tolist()
    layer.threshold.assign(reshape_channels([0.5, -0.25], axis))
    shifted = INPUTS - reshape_channels([0.5, -0.25], axis)
    outputs, (input_gradient, threshold_gradient) = outputs_and_gradients(layer)
    np.testing.assert_array_equal(outputs, np.where(shifted >= 0, 1, -1))
    slope = np.maximum(0, 2 - 2 * np.abs(shifted)) if estimator == "approx_sign" else 1.0
    expected = UPSTREAM * slope * (np.abs(shifted) <= 1)
    np.testing.assert_allclose(input_gradient, expected, rtol=1e-6)
    np.testing.assert_allclose(
        threshold_gradient.reshape(-1), -sum_per_channel(expected, axis), rtol=1e-6
    )


@pytest.mark.parametrize("axis", [-1, 1])
def test_rprelu_matches_the_formula(axis):
    layer = RPReLU(axis=axis)
    layer.build(INPUTS.shape)
    assert set(array(layer.slope).reshape(-1)) == {0.25}
    values = {"slope": [0.5, 2.0], "input_shift": [-0.5, 0.25], "output_shift": [3.0, -1.0]}
    for name, value in values.items():
        getattr(layer, name).assign(reshape_channels(value, axis))
    slope, input_shift, output_shift = (reshape_channels(value, axis) for value in values.values())
    shifted = INPUTS - input_shift
    outputs, slopes = outputs_and_gradients(layer)
    expected = np.where(shifted > 0, shifted, slope * shifted) + output_shift
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)
    input_gradient = UPSTREAM * np.where(shifted > 0, 1, slope)
    parts = UPSTREAM * np.minimum(shifted, 0), -input_gradient, UPSTREAM
    np.testing.assert_allclose(slopes[0], input_gradient, rtol=1e-6)
    for gradient, part in zip(slopes[1:], parts, strict=True):
        np.testing.assert_allclose(gradient.reshape(-1), sum_per_channel(part, axis), rtol=1e-6)
