"""DANN's loss and gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.differentiate import IMPLEMENTATIONS
from support.formulas import dann_by_hand, linear_dann
from support.networks import linear_parts, read_weights
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET
from support.training_step import MODES, check_step

from dann.adaptation import DANN, SourceOnly


def test_strength_can_be_read_and_set():
    model = linear_dann(strength=0.5)
    model.compile(keras.optimizers.SGD(0.0))
    assert float(model.strength) == 0.5
    logs = [model.fit(PAIR, LABELS, verbose=0).history["strength"]]
    model.strength = 0.2
    logs.append(model.fit(PAIR, LABELS, verbose=0).history["strength"])
    assert logs == [[0.5], [pytest.approx(0.2)]]
    with pytest.raises(ValueError, match=">= 0.*Received: strength=-1"):
        model.strength = -1
    with pytest.raises(AttributeError, match="`SourceOnly` has no `strength`"):
        SourceOnly(**linear_parts()).strength = 1


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {"implementation": implementation, "joint_forward": joint_forward}
            for implementation in IMPLEMENTATIONS
            for joint_forward in (True, False)
        ),
        *({"domain_label_smoothing": smoothing} for smoothing in (0.1, 0.5)),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradients_match_the_formula(mode, settings):
    model = linear_dann(**settings)
    a, _, w = weights = read_weights(model)
    is_correct = np.concatenate([SOURCE @ a @ w < 0, TARGET @ a @ w > 0])
    smoothing = settings.get("domain_label_smoothing", 0.0)
    logs = check_step(model, mode, *dann_by_hand(weights, SOURCE, LABELS, TARGET, smoothing))
    assert logs["strength"] == pytest.approx(STRENGTH)
    assert logs["domain/accuracy"] == pytest.approx(np.mean(is_correct))


@pytest.mark.parametrize(("joint_forward", "mean"), [(True, 0.95), (False, 1.9)])
def test_joint_forward_sets_batch_normalization_statistics(joint_forward, mean):
    """Source 0 and target 2: the mean moves by 95% to 1 jointly, or to 0 and then to 2."""
    entry = keras.Input((1,))
    normalization = keras.layers.BatchNormalization(momentum=0.05, scale=False, center=False)
    backbone = keras.Model(entry, normalization(entry))
    model = DANN(backbone, num_classes=2, joint_forward=joint_forward)
    model({"source": np.zeros((4, 1)), "target": 2 * np.ones((4, 1))}, training=True)
    assert float(normalization.moving_mean[0]) == pytest.approx(mean, rel=1e-5)
