"""Conditional entropy and its gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.closed_forms import central_differences, cross_entropy, softmax
from support.networks import linear_parts, weights_of, with_random_weights
from support.one_step import MODES, check_step
from support.pair import LABELS, SOURCE, TARGET

from dann.adaptation import AdversarialModel, ConditionalEntropy
from dann.adaptation.batch import Batch

WEIGHT = 1.7


def total(a, b):
    """Label loss plus the mean of -sum p log p over the target."""
    p = softmax(TARGET @ a @ b)
    return cross_entropy(SOURCE @ a @ b, LABELS) + WEIGHT * entropy(p)


def entropy(p):
    return -np.mean(np.sum(p * np.log(p), axis=1))


def model_with(*regularizers):
    return with_random_weights(
        AdversarialModel(**linear_parts(), strength=None, regularizers=regularizers)
    )


@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode):
    model = model_with(ConditionalEntropy(WEIGHT))
    weights = weights_of(model)
    gradients = central_differences(total, weights)
    a, b = weights
    terms = {"entropy/loss": entropy(softmax(TARGET @ a @ b))}
    check_step(model, mode, terms, gradients, total(a, b))


@pytest.mark.parametrize(
    ("logits", "expected"), [([[5.0, 5.0, 5.0]], np.log(3)), ([[1e4, 0.0, -1e4]], 0.0)]
)
def test_it_is_largest_if_all_classes_are_equally_likely_and_0_if_one_is_certain(logits, expected):
    batch = Batch({}, {}, {"target": keras.ops.convert_to_tensor(logits)})
    loss = ConditionalEntropy().loss(None, {}, batch)
    assert float(loss) == pytest.approx(expected, abs=1e-6)
