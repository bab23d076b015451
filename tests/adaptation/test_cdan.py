"""CDAN's loss and gradients, against NumPy on a linear network."""

import functools

import numpy as np
import pytest
from support.arrays import ALL_INPUTS
from support.closed_forms import binary_losses, certainty_weights, softmax
from support.networks import linear, linear_model, linear_parts, read_weights
from support.training_step import MODES, check_adversarial_step

import dann
from dann.adaptation import CDAN

EXACT, RANDOMIZED = 12, 11  # products of 4 features and 3 classes


def linear_cdan(max_units=EXACT, **kwargs):
    """d = T(f, softmax c) w."""
    head = linear(max_units, 1, "domain_head")
    return linear_model(CDAN, domain_head=head, max_units=max_units, **kwargs)


def products(features, predictions, projections):
    """Returns the exact or the randomized multilinear map."""
    if not projections:
        return (features[:, :, None] * predictions[:, None, :]).reshape(10, EXACT)
    feature_projection, prediction_projection = projections
    projected = (features @ feature_projection) * (predictions @ prediction_projection)
    return projected / np.sqrt(RANDOMIZED)


@pytest.mark.parametrize("max_units", [EXACT, RANDOMIZED])
@pytest.mark.parametrize(("conditioning", "smoothing"), [(False, 0), (True, 0), (True, 0.1)])
@pytest.mark.parametrize("mode", MODES)
def test_cdan_loss_and_gradients_match_the_formula(mode, conditioning, smoothing, max_units):
    """Predictions and entropies are constants in the domain loss."""
    settings = {"entropy_conditioning": conditioning, "domain_label_smoothing": smoothing}
    model = linear_cdan(max_units, **settings)
    a, b, _ = read_weights(model)
    projections = [np.array(weight, "float64") for weight in model.multilinear_map.weights]
    predictions = softmax(ALL_INPUTS @ a @ b)
    weights = np.ones(10)
    if conditioning:
        weights = np.concatenate([certainty_weights(part) for part in np.split(predictions, 2)])
    labels = np.repeat([smoothing, 1 - smoothing], 5)

    def domain_loss(a, w):
        scores = products(ALL_INPUTS @ a, predictions, projections) @ w
        return np.mean(weights * binary_losses(scores[:, 0], labels))

    check_adversarial_step(model, mode, "domain/loss", domain_loss)


@pytest.mark.parametrize(("method", "inputs"), [(dann.DANN, 4), (CDAN, RANDOMIZED)])
def test_domain_head_may_be_a_function(method, inputs):
    options = {"max_units": RANDOMIZED} if method is CDAN else {}
    make_head = functools.partial(dann.networks.domain_head, hidden_units=(7,))
    model = method(linear_parts()["backbone"], 3, domain_head=make_head, **options)
    assert model.domain_head.input_shape == (None, inputs)
    assert model.domain_head.layers[1].units == 7
