import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.differentiate import value_and_gradients

from dann.layers import MultilinearMap

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(5, 4)).astype("float32")
FEATURES[0, 0] = 0.0
PREDICTIONS = RNG.dirichlet(np.ones(3), size=5).astype("float32")
EXACT, RANDOMIZED = 12, 11  # units for 4 features and 3 predictions


def call(layer):
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
    call(layer)
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
