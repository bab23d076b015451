"""Minimum class confusion and its gradients, against NumPy on a linear network."""

import numpy as np
import pytest
from support.closed_forms import softmax
from support.formulas import certainty_weights, check_regularizer, confusion, regularized_model
from support.networks import read_weights
from support.pair import TARGET
from support.training_step import MODES

from dann.adaptation import MCC
from dann.adaptation.batch import Batch


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("mode", MODES)
def test_mcc_loss_and_gradients_match_the_formula(mode, temperature):
    model = regularized_model(MCC(1.7, temperature))

    def predictions(a, b):
        return softmax(TARGET @ a @ b / temperature)

    constant = certainty_weights(predictions(*read_weights(model)))
    check_regularizer(model, mode, lambda a, b: confusion(predictions(a, b), constant))


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        (50 * np.eye(3), 0),  # every class is certain
        (np.zeros((4, 3)), 2 / 3),  # chance
        ([[0.0, 0.0, -1e4]], 1 / 3),  # a class that is never predicted has no confusion
    ],
)
def test_loss_at_its_bounds_and_for_missing_class(logits, expected):
    batch = Batch({}, {}, {"target": np.array(logits, "float32")})
    loss = MCC(temperature=1.0).losses(None, batch, None, False)["mcc/loss"]
    assert float(loss) == pytest.approx(expected, abs=1e-6)
