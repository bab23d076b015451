"""Minimum class confusion and its gradients, against NumPy on a linear network."""

import numpy as np
import pytest
from support.closed_forms import central_differences, cross_entropy, softmax
from support.networks import linear_parts, weights_of, with_random_weights
from support.one_step import MODES, check_step
from support.pair import LABELS, SOURCE, TARGET

from dann.adaptation import MCC, SourceOnly
from dann.adaptation.batch import Batch

WEIGHT = 1.7


def certainty(logits, temperature):
    """Equation 4: the weight of each example, 1 on average."""
    p = softmax(logits / temperature)
    weights = 1 + np.exp(np.sum(p * np.log(p), axis=1))
    return len(p) * weights / weights.sum()


def confusion(logits, temperature, weights):
    """Equations 2, 3, 5 and 6, element by element."""
    p = softmax(logits / temperature)
    classes = p.shape[1]
    c = np.zeros((classes, classes))
    for j in range(classes):
        for k in range(classes):
            c[j, k] = sum(w * row[j] * row[k] for w, row in zip(weights, p, strict=True))
    return sum(c[j, k] / c[j].sum() for j in range(classes) for k in range(classes) if j != k) / (
        classes
    )


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, temperature):
    regularizers = [MCC(WEIGHT, temperature)]
    model = SourceOnly(**linear_parts(), regularizers=regularizers)
    a, b = weights_of(with_random_weights(model))
    constant = certainty(TARGET @ a @ b, temperature)

    def total(a, b):
        joins = WEIGHT * confusion(TARGET @ a @ b, temperature, constant)
        return cross_entropy(SOURCE @ a @ b, LABELS) + joins

    gradients = central_differences(total, [a, b])
    loss = confusion(TARGET @ a @ b, temperature, constant)
    check_step(model, mode, {"mcc/loss": loss}, gradients, total(a, b))


def mcc(logits):
    batch = Batch({}, {}, {"target": np.array(logits, "float32")})
    return float(MCC(temperature=1.0).loss(None, {}, batch))


def test_certain_predictions_of_every_class_have_no_confusion():
    assert mcc(50 * np.eye(3)) == pytest.approx(0, abs=1e-6)


def test_even_predictions_have_the_confusion_of_chance():
    assert mcc(np.zeros((4, 3))) == pytest.approx(2 / 3)


def test_a_class_that_is_never_predicted_confuses_nothing():
    assert mcc([[0.0, 0.0, -1e4]]) == pytest.approx(1 / 3, abs=1e-6)
