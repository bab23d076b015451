"""CDAN's loss and gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.closed_forms import softmax
from support.networks import linear, linear_parts, weights_of, with_random_weights
from support.one_step import MODES, check_adversarial_step
from support.pair import SOURCE, STRENGTH, TARGET

from dann.adaptation import CDAN
from dann.adaptation.batch import Batch
from dann.adaptation.cdan import entropy_weights

EXACT, RANDOMISED = 12, 11  # of 4 features and 3 classes
INPUTS = np.concatenate([SOURCE, TARGET])


def linear_cdan(entropy_conditioning=False, max_units=EXACT, **kwargs):
    """f = x A, c = f B, d = T(f, softmax c) w, without biases."""
    head = linear(max_units, 1, "domain_head")
    model = CDAN(
        **linear_parts(),
        domain_head=head,
        strength=STRENGTH,
        entropy_conditioning=entropy_conditioning,
        max_units=max_units,
        **kwargs,
    )
    return with_random_weights(model)


def products(features, predictions, projections):
    """The exact and the randomised map."""
    if not projections:
        return np.stack(
            [np.outer(f, g).ravel() for f, g in zip(features, predictions, strict=True)]
        )
    of_features, of_predictions = projections
    return (features @ of_features) * (predictions @ of_predictions) / np.sqrt(RANDOMISED)


def assert_matches_the_formula(model, mode, smoothing=0.0):
    """Predictions and entropies are constants in the domain loss."""
    a, b, _ = weights_of(model)
    projections = [np.array(one, "float64") for one in model.multilinear_map.weights]
    predictions = softmax(INPUTS @ a @ b)
    certainty = 1 + np.prod(predictions**predictions, axis=1)  # exp(-H) = prod p^p
    if not model.entropy_conditioning:
        certainty[:] = 1.0
    shares = [part / part.sum() for part in (certainty[:5], certainty[5:])]
    labels = smoothing, 1 - smoothing

    def domain_loss(a, w):
        probability = 1 / (1 + np.exp(-products(INPUTS @ a, predictions, projections) @ w))[:, 0]
        losses = [
            share @ -(label * np.log(chance) + (1 - label) * np.log(1 - chance))
            for share, label, chance in zip(shares, labels, np.split(probability, 2), strict=True)
        ]
        return sum(losses) / 2

    check_adversarial_step(model, mode, "domain/loss", domain_loss)


@pytest.mark.parametrize("max_units", [EXACT, RANDOMISED])
@pytest.mark.parametrize("entropy_conditioning", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, entropy_conditioning, max_units):
    assert_matches_the_formula(linear_cdan(entropy_conditioning, max_units), mode)


@pytest.mark.parametrize("mode", MODES)
def test_smoothed_labels_go_with_entropy_weights(mode):
    assert_matches_the_formula(linear_cdan(True, domain_label_smoothing=0.1), mode, 0.1)


def test_entropy_weights_favour_certain_predictions_and_have_mean_1_in_each_domain():
    uniform, certain = [0.0, 0.0, 0.0], [0.0, 0.0, 200.0]
    logits = {
        "source": keras.ops.array([uniform, uniform, certain]),
        "target": keras.ops.array([certain, certain]),
    }
    weights = keras.ops.convert_to_numpy(entropy_weights(Batch({}, {}, logits)))
    least, most = 4 / 3, 2.0  # exp(-log 3) = 1 / 3
    source = np.array([least, least, most]) * 3 / (2 * least + most)
    np.testing.assert_allclose(weights, [*source, 1.0, 1.0], rtol=1e-5)


def test_the_discriminator_gets_at_most_max_units():
    assert linear_cdan(max_units=EXACT).multilinear_map.weights == []
    model = CDAN(linear_parts()["backbone"], num_classes=3, max_units=RANDOMISED)
    assert model.domain_head.input_shape == (None, RANDOMISED)
    shapes = [weight.shape for weight in model.multilinear_map.non_trainable_weights]
    assert shapes == [(4, RANDOMISED), (3, RANDOMISED)]
    assert CDAN.adversary_inputs(4, 3) == 12
    assert CDAN.adversary_inputs(4, 3, max_units=5, strength=0.5) == 5
    assert CDAN.adversary_inputs(500, 10) == 4096
