import keras
import numpy as np
import pytest
from support.modes import each_mode

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


def test_inner_products_of_the_randomised_form_come_near_the_exact_ones():
    """Their mean is exact; for units f and g the variance is below (3 * 3 - 1) / max_units."""
    features, predictions = RNG.normal(size=(2, 40)), RNG.normal(size=(2, 30))
    units = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (features, predictions)]
    first, second = products(
        MultilinearMap(1199, seed=3), *[one.astype("float32") for one in units]
    )
    exact = (units[0][0] @ units[0][1]) * (units[1][0] @ units[1][1])
    deviation = np.sqrt(8 / 1199)
    assert first @ second == pytest.approx(exact, abs=4 * deviation)
    assert first @ first == pytest.approx(1.0, abs=4 * deviation)


def test_the_projections_are_standard_normal_and_differ():
    layer = MultilinearMap(400, seed=1)
    layer.build([(None, 50), (None, 50)])
    one, other = (np.array(weight).ravel() for weight in layer.weights)
    for drawn in (one, other):
        assert drawn.mean() == pytest.approx(0.0, abs=0.03)
        assert drawn.std() == pytest.approx(1.0, abs=0.03)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


def test_a_seed_draws_the_same_projections_again():
    one, same = (products(MultilinearMap(RANDOMISED, seed=4)) for _ in range(2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(products(MultilinearMap(RANDOMISED, seed=5)) - one).max() > 0.1
    drawn = []
    for seed in (7, 7, 8):
        keras.utils.set_random_seed(seed)
        drawn.append(products(MultilinearMap(RANDOMISED)))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max() > 0.1


def pair_model(max_units):
    """Two dense layers without biases, from 3 inputs to features and predictions, joined."""
    entry = keras.Input((3,))
    features, predictions = (keras.layers.Dense(units, use_bias=False)(entry) for units in (4, 3))
    return keras.Model(entry, MultilinearMap(max_units)([features, predictions]))


@each_mode
@pytest.mark.parametrize("max_units", [EXACT, RANDOMISED])
def test_both_inputs_get_their_gradient(max_units, mode):
    """One step of rate 1 down the loss `sum(c * y)`, by hand."""
    model = pair_model(max_units)
    slope = RNG.normal(size=max_units)
    inputs = RNG.normal(size=(1, 3)).astype("float32")
    start = [np.array(weight, "float64") for weight in model.trainable_weights]
    fixed = [np.array(weight, "float64") for weight in model.non_trainable_weights]
    f, g = (inputs @ kernel for kernel in start)
    if fixed:
        upstream = slope / np.sqrt(max_units)
        of_features = (upstream * (g @ fixed[1])) @ fixed[0].T
        of_predictions = (upstream * (f @ fixed[0])) @ fixed[1].T
    else:
        of_features = g @ slope.reshape(4, 3).T
        of_predictions = f @ slope.reshape(4, 3)

    def loss(y, outputs):
        return keras.ops.sum(y * outputs)

    model.compile(
        keras.optimizers.SGD(1.0), loss, run_eagerly=mode == "eager", jit_compile=mode == "xla"
    )
    model.fit(inputs, slope[None], verbose=0)
    for kernel, before, slopes in zip(
        model.trainable_weights, start, (of_features, of_predictions), strict=True
    ):
        np.testing.assert_allclose(before - kernel, inputs.T @ slopes, rtol=1e-4, atol=1e-5)
    for weight, before in zip(model.non_trainable_weights, fixed, strict=True):
        np.testing.assert_array_equal(weight, before.astype("float32"))


@pytest.mark.parametrize("shapes", [[(5, 4), (5, 3, 1)], [(5, 4, 4), (5, 3)]])
def test_inputs_that_are_not_flat_are_refused(shapes):
    with pytest.raises(ValueError, match="must have the shape"):
        MultilinearMap().build(shapes)
