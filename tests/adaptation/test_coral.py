"""Deep CORAL and its gradients, against NumPy on a linear network."""

import numpy as np
import pytest
from support.formulas import check_regularizer, regularized_model
from support.pair import SOURCE, TARGET
from support.training_step import MODES

from dann.adaptation import CORAL
from dann.adaptation.batch import Batch


def coral(source, target):
    size = source.shape[1]
    difference = np.cov(source, rowvar=False) - np.cov(target, rowvar=False)
    return np.sum(difference**2) / (4 * size**2)


@pytest.mark.parametrize("mode", MODES)
def test_coral_loss_and_gradients_match_the_formula(mode):
    model = regularized_model(CORAL(1.7))
    check_regularizer(model, mode, lambda a, b: coral(SOURCE @ a, TARGET @ a))


def test_positions_of_maps_count_as_examples():
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(2, 4, 3, 2, 5)).astype("float32")
    batch = Batch({}, {"source": source, "target": 100 + 2 * target}, {})
    loss = CORAL().losses(None, batch, None, False)["coral/loss"]
    expected = coral(source.reshape(-1, 5), 2 * target.reshape(-1, 5))
    assert float(loss) == pytest.approx(expected, rel=1e-4)
