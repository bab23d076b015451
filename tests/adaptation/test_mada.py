"""MADA's loss and gradients, against NumPy on a linear network."""

import functools

import numpy as np
import pytest
from support.closed_forms import softmax
from support.formulas import binary_losses, linear_model
from support.networks import linear, read_weights
from support.pair import ALL_INPUTS
from support.training_step import MODES, check_adversarial_step

from dann.adaptation import MADA


def domain_loss(a, *heads, predictions, smoothing):
    """Equation 4: the sum over classes of the mean over examples of both domains.

    `d_k = (softmax(c)_k f) w_k`; the predictions are constants.
    """
    domain = np.repeat([smoothing, 1 - smoothing], 5)
    losses = []
    for k, head in enumerate(heads):
        score = (predictions[:, k : k + 1] * (ALL_INPUTS @ a) @ head)[:, 0]
        losses.append(binary_losses(score, domain))
    return np.sum(losses) / 10


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("mode", MODES)
def test_mada_loss_and_gradients_match_the_formula(mode, smoothing):
    settings = {"domain_head": linear(4, 1, "domain_head"), "domain_label_smoothing": smoothing}
    model = linear_model(MADA, **settings)
    a, b, *heads = read_weights(model)
    assert len(heads) == 3
    predictions = softmax(ALL_INPUTS @ a @ b)
    loss = functools.partial(domain_loss, predictions=predictions, smoothing=smoothing)
    logs = check_adversarial_step(model, mode, "domain/loss", loss)
    # Each discriminator is weighted by the probability of its class.
    is_correct = [(ALL_INPUTS @ a @ head > 0)[:, 0] == (np.arange(10) >= 5) for head in heads]
    accuracy = np.sum(predictions * np.transpose(is_correct)) / 10
    assert logs["domain/accuracy"] == pytest.approx(accuracy, rel=1e-5)
