"""CDAN's loss and gradients, against NumPy on a linear network."""

import numpy as np
import pytest
from formulas import binary_losses, certainty
from support.closed_forms import softmax
from support.networks import linear, linear_parts, weights_of, with_random_weights
from support.one_step import MODES, check_adversarial_step
from support.pair import SOURCE, STRENGTH, TARGET

from dann.adaptation import CDAN

EXACT, RANDOMISED = 12, 11  # of 4 features and 3 classes
INPUTS = np.concatenate([SOURCE, TARGET])


def linear_cdan(max_units=EXACT, **kwargs):
    """f = x A, c = f B, d = T(f, softmax c) w, without biases."""
    head = linear(max_units, 1, "domain_head")
    settings = {"strength": STRENGTH, "max_units": max_units, **kwargs}
    return with_random_weights(CDAN(**linear_parts(), domain_head=head, **settings))


def products(features, predictions, projections):
    """The exact and the randomised map."""
    if not projections:
        return (features[:, :, None] * predictions[:, None, :]).reshape(10, EXACT)
    of_features, of_predictions = projections
    return (features @ of_features) * (predictions @ of_predictions) / np.sqrt(RANDOMISED)


def assert_matches_the_formula(model, mode, smoothing=0.0):
    """Predictions and entropies are constants in the domain loss."""
    a, b, _ = weights_of(model)
    projections = [np.array(one, "float64") for one in model.multilinear_map.weights]
    predictions = softmax(INPUTS @ a @ b)
    weights = np.ones(10)
    if model.entropy_conditioning:
        weights = np.concatenate([certainty(part) for part in np.split(predictions, 2)])
    labels = np.repeat([smoothing, 1 - smoothing], 5)

    def domain_loss(a, w):
        scores = products(INPUTS @ a, predictions, projections) @ w
        return np.mean(weights * binary_losses(scores[:, 0], labels))

    check_adversarial_step(model, mode, "domain/loss", domain_loss)


@pytest.mark.parametrize("max_units", [EXACT, RANDOMISED])
@pytest.mark.parametrize("entropy_conditioning", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, entropy_conditioning, max_units):
    assert_matches_the_formula(
        linear_cdan(max_units, entropy_conditioning=entropy_conditioning), mode
    )


@pytest.mark.parametrize("mode", MODES)
def test_smoothed_labels_go_with_entropy_weights(mode):
    model = linear_cdan(entropy_conditioning=True, domain_label_smoothing=0.1)
    assert_matches_the_formula(model, mode, 0.1)


def test_the_discriminator_gets_at_most_max_units():
    assert linear_cdan(max_units=EXACT).multilinear_map.weights == []
    model = CDAN(linear_parts()["backbone"], num_classes=3, max_units=RANDOMISED)
    assert model.domain_head.input_shape == (None, RANDOMISED)
    shapes = [weight.shape for weight in model.multilinear_map.non_trainable_weights]
    assert shapes == [(4, RANDOMISED), (3, RANDOMISED)]
    assert CDAN.adversary_inputs(4, 3) == 12
    assert CDAN.adversary_inputs(4, 3, max_units=5, strength=0.5) == 5
    assert CDAN.adversary_inputs(500, 10) == 4096
