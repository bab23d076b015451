"""Conditional entropy, CORAL and MCC with their gradients, against NumPy on a linear network."""

import numpy as np
import pytest
from support.closed_forms import softmax
from support.formulas import (
    certainty_weights,
    check_regularizer,
    confusion,
    entropy,
    regularized_model,
)
from support.networks import read_weights
from support.pair import SOURCE, TARGET
from support.training_step import MODES

from dann.adaptation import CORAL, MCC, ConditionalEntropy
from dann.adaptation.batch import Batch


def coral(source, target):
    size = source.shape[1]
    difference = np.cov(source, rowvar=False) - np.cov(target, rowvar=False)
    return np.sum(difference**2) / (4 * size**2)


LOSSES = {
    ConditionalEntropy: lambda a, b: entropy(softmax(TARGET @ a @ b)),
    CORAL: lambda a, b: coral(SOURCE @ a, TARGET @ a),
}


@pytest.mark.parametrize("regularizer", LOSSES)
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradients_match_the_formula(mode, regularizer):
    check_regularizer(regularized_model(regularizer(1.7)), mode, LOSSES[regularizer])


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("mode", MODES)
def test_mcc_loss_and_gradients_match_the_formula(mode, temperature):
    model = regularized_model(MCC(1.7, temperature))

    def predictions(a, b):
        return softmax(TARGET @ a @ b / temperature)

    constant = certainty_weights(predictions(*read_weights(model)))
    check_regularizer(model, mode, lambda a, b: confusion(predictions(a, b), constant))


@pytest.mark.parametrize(
    ("regularizer", "logits", "expected"),
    [
        (ConditionalEntropy(), [[5.0, 5.0, 5.0]], np.log(3)),
        (ConditionalEntropy(), [[1e4, 0.0, -1e4]], 0.0),
        (MCC(temperature=1.0), 50 * np.eye(3), 0),  # every class is certain
        (MCC(temperature=1.0), np.zeros((4, 3)), 2 / 3),  # chance
        # A class that is never predicted has no confusion.
        (MCC(temperature=1.0), [[0.0, 0.0, -1e4]], 1 / 3),
    ],
)
def test_loss_at_its_bounds(regularizer, logits, expected):
    batch = Batch({}, {}, {"target": np.array(logits, "float32")})
    (loss,) = regularizer.losses(None, batch, None, False).values()
    assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_coral_counts_positions_of_maps_as_examples():
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(2, 4, 3, 2, 5)).astype("float32")
    batch = Batch({}, {"source": source, "target": 100 + 2 * target}, {})
    loss = CORAL().losses(None, batch, None, False)["coral/loss"]
    expected = coral(source.reshape(-1, 5), 2 * target.reshape(-1, 5))
    assert float(loss) == pytest.approx(expected, rel=1e-4)
