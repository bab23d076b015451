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
EXACT, RANDOMISED = 12, 11  # of 4 features and 3 predictions


def products(layer):
    return keras.ops.convert_to_numpy(layer([FEATURES, PREDICTIONS]))


def test_the_projections_are_standard_normal_and_differ():
    layer = MultilinearMap(400, seed=1)
    layer.build([(None, 50), (None, 50)])
    one, other = (np.array(weight).ravel() for weight in layer.weights)
    for drawn in (one, other):
        assert drawn.mean() == pytest.approx(0.0, abs=0.03)
        assert drawn.std() == pytest.approx(1.0, abs=0.03)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


def test_a_seed_draws_the_same_projections_again():
    for own in (True, False):
        drawn = []
        for seed in (7, 7, 8):
            if not own:
                keras.utils.set_random_seed(seed)
            drawn.append(products(MultilinearMap(RANDOMISED, seed if own else None)))
        np.testing.assert_array_equal(drawn[0], drawn[1])
        assert np.abs(drawn[0] - drawn[2]).max() > 0.1


@pytest.mark.parametrize("compiled", [False, True, "xla"])
@pytest.mark.parametrize("max_units", [EXACT, RANDOMISED])
def test_products_and_both_gradients_are_those_of_the_formula(max_units, compiled):
    """The flattened outer product, or one of two projections; and `sum(c * y)`, by hand."""
    layer, c = MultilinearMap(max_units), RNG.normal(size=(5, max_units)).astype("float32")
    products(layer)
    value, found = value_and_gradients(
        lambda f, g: layer([f, g]), FEATURES, PREDICTIONS, upstream=c, compiled=compiled
    )
    if max_units == EXACT:
        product = [np.kron(f, g) for f, g in zip(FEATURES, PREDICTIONS, strict=True)]
        matrices = c.reshape(5, 4, 3)
        of_features = np.einsum("bij,bj->bi", matrices, PREDICTIONS)
        of_predictions = np.einsum("bij,bi->bj", matrices, FEATURES)
    else:
        p, q = (np.array(weight, "float64") for weight in layer.weights)
        assert (p.shape, q.shape) == ((4, 11), (3, 11))
        c = c / np.sqrt(11)
        product = (FEATURES @ p) * (PREDICTIONS @ q) / np.sqrt(11)
        of_features = (c * (PREDICTIONS @ q)) @ p.T
        of_predictions = (c * (FEATURES @ p)) @ q.T
    assert_all_close([value, *found], [product, of_features, of_predictions], 1e-4, 1e-5)
    assert layer.trainable_weights == []
