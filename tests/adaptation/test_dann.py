"""DANN's loss and gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.arrays import LABELS, PAIR, SOURCE, STRENGTH, TARGET
from support.closed_forms import dann_by_hand
from support.differentiate import IMPLEMENTATIONS
from support.networks import linear_dann, read_weights
from support.training_step import MODES, check_step

import dann
from dann.adaptation import CDAN, DANN, MCD


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
def test_dann_loss_and_gradients_match_the_formula(mode, settings):
    model = linear_dann(**settings)
    a, _, w = weights = read_weights(model)
    is_correct = np.concatenate([SOURCE @ a @ w < 0, TARGET @ a @ w > 0])
    smoothing = settings.get("domain_label_smoothing", 0.0)
    logs = check_step(model, mode, *dann_by_hand(weights, SOURCE, LABELS, TARGET, smoothing))
    assert logs["strength"] == pytest.approx(STRENGTH)
    assert logs["domain/accuracy"] == pytest.approx(np.mean(is_correct))


def normalized_backbone(layer):
    return keras.Sequential([keras.Input((1,)), keras.Sequential([keras.Input((1,)), layer])])


def test_joint_forward_computes_statistics_of_both_domains():
    """Source 0 and target 2: the mean moves by 95% to 1."""
    layer = keras.layers.BatchNormalization(momentum=0.05, scale=False, center=False)
    model = DANN(normalized_backbone(layer), num_classes=2)
    model({"source": np.zeros((4, 1)), "target": 2 * np.ones((4, 1))}, training=True)
    assert float(layer.moving_mean[0]) == pytest.approx(0.95, rel=1e-5)


@pytest.mark.parametrize("method", [DANN, CDAN, MCD])
@pytest.mark.parametrize("kind", [keras.layers.BatchNormalization, dann.layers.BatchNormalization])
def test_separate_passes_refuse_batch_normalization_unless_frozen(method, kind):
    backbone = normalized_backbone(kind())
    model = method(backbone, num_classes=2, joint_forward=False)
    model.compile("sgd")
    pair = {"source": np.zeros((4, 1), "float32"), "target": np.ones((4, 1), "float32")}
    with pytest.raises(ValueError, match="joint_forward=True.*GroupNormalization.*trainable"):
        model.fit(pair, np.arange(4) % 2, verbose=0)
    # A new model, because Keras on JAX keeps traced values after an error within a step.
    backbone = normalized_backbone(kind())
    backbone.trainable = False
    model = method(backbone, num_classes=2, joint_forward=False)
    model.compile("sgd")
    model.fit(pair, np.arange(4) % 2, verbose=0)
    np.testing.assert_array_equal(backbone.layers[0].layers[0].moving_mean, [0.0])
