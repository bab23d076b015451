"""DANN's loss and gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from formulas import dann_by_hand, linear_dann
from support.differentiate import WAYS
from support.networks import linear_parts, weights_of
from support.one_step import MODES, check_step, step
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET

from dann.adaptation import DANN, SourceOnly


def test_the_strength_of_the_model_is_that_of_its_reversal():
    model = linear_dann(strength=0.5)
    model.compile(keras.optimizers.SGD(0.0))
    assert float(model.strength) == 0.5
    logs = [model.fit(PAIR, LABELS, verbose=0).history["strength"]]
    model.strength = 0.2
    logs.append(model.fit(PAIR, LABELS, verbose=0).history["strength"])
    assert logs == [[0.5], [pytest.approx(0.2)]]
    with pytest.raises(ValueError, match="at least 0.*Received: strength=-1"):
        model.strength = -1
    with pytest.raises(AttributeError):
        SourceOnly(**linear_parts()).strength = 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("passes", ["joint", "separate"])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(way, passes, mode):
    model = linear_dann(way=way, passes=passes)
    a, _, w = weights = weights_of(model)
    right = np.concatenate([SOURCE @ a @ w < 0, TARGET @ a @ w > 0])
    logs = check_step(model, mode, *dann_by_hand(weights, SOURCE, LABELS, TARGET))
    assert logs["strength"] == pytest.approx(STRENGTH)
    assert logs["domain/accuracy"] == pytest.approx(np.mean(right))


@pytest.mark.parametrize("smoothing", [0.1, 0.5])
@pytest.mark.parametrize("mode", MODES)
def test_smoothing_gives_a_share_of_each_domain_label_to_the_other(mode, smoothing):
    model = linear_dann(domain_label_smoothing=smoothing)
    expected = dann_by_hand(weights_of(model), SOURCE, LABELS, TARGET, smoothing)
    logs = check_step(model, mode, *expected)
    plain_logs, _ = step(linear_dann(), "eager")
    assert logs["domain/accuracy"] == pytest.approx(plain_logs["domain/accuracy"])


@pytest.mark.parametrize(("passes", "mean"), [("joint", 0.95), ("separate", 1.9)])
def test_passes_decide_what_batch_normalization_sees(passes, mean):
    """Source all 0, target all 2: 95% of the way to mean 1 in one pass; to 0, then to 2 in two."""
    entry = keras.Input((1,))
    normalization = keras.layers.BatchNormalization(momentum=0.05, scale=False, center=False)
    backbone = keras.Model(entry, normalization(entry))
    model = DANN(backbone, num_classes=2, passes=passes)
    model({"source": np.zeros((4, 1)), "target": 2 * np.ones((4, 1))}, training=True)
    assert float(normalization.moving_mean[0]) == pytest.approx(mean, rel=1e-5)
