import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.differentiate import as_array as array
from support.differentiate import value_and_gradients

from dann.autodiff import gradients
from dann.layers import MultilinearMap, RPReLU, RSign

INPUTS = np.array([[[-2.0, 0.5], [-0.5, 0.25]], [[0.0, 1.0], [3.0, -1.0]]], "float32")
UPSTREAM = np.array([[[1.0, -2.0], [3.0, 4.0]], [[5.0, -6.0], [7.0, 8.0]]], "float32")


def assign(weight, values):
    weight.assign(np.reshape(values, weight.shape))


def call_and_differentiate(layer, axis):
    """Returns outputs and gradients with channels on the last axis, and gradients of weights."""
    weights = [array(weight) for weight in layer.trainable_variables]
    inputs, upstream = (np.swapaxes(x, axis, -1) for x in (INPUTS, UPSTREAM))

    def call(inputs, *weights):
        return layer.stateless_call(list(weights), [], inputs)[0]

    input_slope, *slopes = map(array, gradients(call, [inputs, *weights], [upstream]))
    outputs = (np.swapaxes(x, axis, -1) for x in (array(layer(inputs)), input_slope))
    return *outputs, *(slope.reshape(-1) for slope in slopes)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("estimator", ["htanh", "approx_sign"])
def test_rsign_threshold_gets_the_opposite_gradient(estimator, axis):
    layer = RSign(axis=axis, estimator=estimator)
    layer.build(INPUTS.shape)
    assert not np.any(array(layer.threshold))
    assign(layer.threshold, [0.5, -0.25])
    shifted = INPUTS - np.float32([0.5, -0.25])
    outputs, input_gradient, threshold_gradient = call_and_differentiate(layer, axis)
    np.testing.assert_array_equal(outputs, np.where(shifted >= 0, 1, -1))
    slope = np.maximum(0, 2 - 2 * np.abs(shifted)) if estimator == "approx_sign" else 1.0
    expected = UPSTREAM * slope * (np.abs(shifted) <= 1)
    np.testing.assert_allclose(input_gradient, expected, rtol=1e-6)
    np.testing.assert_allclose(threshold_gradient, -expected.sum(axis=(0, 1)), rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, 1])
def test_rprelu_matches_the_formula(axis):
    layer = RPReLU(axis=axis)
    layer.build(INPUTS.shape)
    assert set(array(layer.slope).reshape(-1)) == {0.25}
    slope, input_shift, output_shift = np.float32([[0.5, 2.0], [-0.5, 0.25], [3.0, -1.0]])
    assign(layer.slope, slope)
    assign(layer.input_shift, input_shift)
    assign(layer.output_shift, output_shift)
    shifted = INPUTS - input_shift
    outputs, input_gradient, *weight_gradients = call_and_differentiate(layer, axis)
    expected = np.where(shifted > 0, shifted, slope * shifted) + output_shift
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)
    expected = UPSTREAM * np.where(shifted > 0, 1, slope)
    np.testing.assert_allclose(input_gradient, expected, rtol=1e-6)
    parts = UPSTREAM * np.minimum(shifted, 0), -expected, UPSTREAM
    assert_all_close(weight_gradients, [part.sum(axis=(0, 1)) for part in parts], rtol=1e-6)


RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(5, 4)).astype("float32")
FEATURES[0, 0] = 0.0
PREDICTIONS = RNG.dirichlet(np.ones(3), size=5).astype("float32")
EXACT, RANDOMIZED = 12, 11  # units for 4 features and 3 predictions


def map_features(layer):
    return keras.ops.convert_to_numpy(layer([FEATURES, PREDICTIONS]))


def test_projections_are_independent_standard_normals():
    layer = MultilinearMap(400, seed=1)
    layer.build([(None, 50), (None, 50)])
    projections = [np.array(weight).ravel() for weight in layer.weights]
    np.testing.assert_allclose(np.mean(projections, axis=1), 0.0, atol=0.03)
    np.testing.assert_allclose(np.std(projections, axis=1), 1.0, atol=0.03)
    assert abs(np.corrcoef(projections)[0, 1]) < 0.03


@pytest.mark.parametrize("compiled", [False, True, "xla"])
@pytest.mark.parametrize("max_units", [EXACT, RANDOMIZED])
def test_products_and_gradients_match_the_formula(max_units, compiled):
    """Compares the outer product or the product of two projections, and gradients of `sum(c y)`."""
    layer, c = MultilinearMap(max_units), RNG.normal(size=(5, max_units)).astype("float32")
    map_features(layer)
    value, slopes = value_and_gradients(
        lambda f, g: layer([f, g]), FEATURES, PREDICTIONS, upstream=c, compiled=compiled
    )
    if max_units == EXACT:
        product = [np.kron(f, g) for f, g in zip(FEATURES, PREDICTIONS, strict=True)]
        matrices = c.reshape(5, 4, 3)
        feature_gradient = np.einsum("bij,bj->bi", matrices, PREDICTIONS)
        prediction_gradient = np.einsum("bij,bi->bj", matrices, FEATURES)
    else:
        p, q = (np.array(weight, "float64") for weight in layer.weights)
        assert (p.shape, q.shape) == ((4, 11), (3, 11))
        c = c / np.sqrt(11)
        product = (FEATURES @ p) * (PREDICTIONS @ q) / np.sqrt(11)
        feature_gradient = (c * (PREDICTIONS @ q)) @ p.T
        prediction_gradient = (c * (FEATURES @ p)) @ q.T
    assert_all_close([value, *slopes], [product, feature_gradient, prediction_gradient], 1e-4, 1e-5)
    assert layer.trainable_weights == []
