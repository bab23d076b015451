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


def products(layer, features=FEATURES, predictions=PREDICTIONS):
    inputs = [keras.ops.convert_to_tensor(one) for one in (features, predictions)]
    return keras.ops.convert_to_numpy(layer(inputs))


def test_the_exact_form_is_the_flattened_outer_product():
    expected = [np.kron(f, g) for f, g in zip(FEATURES, PREDICTIONS, strict=True)]
    layer = MultilinearMap(EXACT)
    np.testing.assert_allclose(products(layer), expected, rtol=1e-6)
    assert layer.weights == []


def test_the_randomised_form_multiplies_two_projections():
    layer = MultilinearMap(RANDOMISED)
    outputs = products(layer)
    of_features, of_predictions = (np.array(weight, "float64") for weight in layer.weights)
    assert (of_features.shape, of_predictions.shape) == ((4, 11), (3, 11))
    expected = (FEATURES @ of_features) * (PREDICTIONS @ of_predictions) / np.sqrt(11)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-7)


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
def test_both_inputs_get_their_gradient(max_units, compiled):
    """Of `sum(c * y)`, by hand."""
    layer, c = MultilinearMap(max_units), RNG.normal(size=(5, max_units)).astype("float32")
    products(layer)
    _, found = value_and_gradients(
        lambda f, g: layer([f, g]), FEATURES, PREDICTIONS, upstream=c, compiled=compiled
    )
    if max_units == EXACT:
        matrices = c.reshape(5, 4, 3)
        expected = [
            np.einsum("bij,bj->bi", matrices, PREDICTIONS),
            np.einsum("bij,bi->bj", matrices, FEATURES),
        ]
    else:
        of_features, of_predictions = map(keras.ops.convert_to_numpy, layer.weights)
        c = c / np.sqrt(max_units)
        expected = [
            (c * (PREDICTIONS @ of_predictions)) @ of_features.T,
            (c * (FEATURES @ of_features)) @ of_predictions.T,
        ]
    assert_all_close(found, expected, 1e-4, 1e-5)
    assert layer.trainable_weights == []
