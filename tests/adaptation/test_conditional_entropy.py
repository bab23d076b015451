"""Conditional entropy and its gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.closed_forms import softmax
from support.formulas import check_regularizer, entropy, regularized_model
from support.pair import TARGET
from support.training_step import MODES

from dann.adaptation import ConditionalEntropy
from dann.adaptation.batch import Batch


@pytest.mark.parametrize("mode", MODES)
def test_conditional_entropy_loss_and_gradients_match_the_formula(mode):
    model = regularized_model(ConditionalEntropy(1.7))
    check_regularizer(model, mode, lambda a, b: entropy(softmax(TARGET @ a @ b)))


@pytest.mark.parametrize(
    ("logits", "expected"), [([[5.0, 5.0, 5.0]], np.log(3)), ([[1e4, 0.0, -1e4]], 0.0)]
)
def test_loss_of_uniform_and_certain_predictions(logits, expected):
    batch = Batch({}, {}, {"target": keras.ops.convert_to_tensor(logits)})
    loss = ConditionalEntropy().losses(None, batch, None, False)["entropy/loss"]
    assert float(loss) == pytest.approx(expected, abs=1e-6)
