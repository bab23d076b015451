"""Virtual adversarial training against NumPy on a linear network."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops
from support.arrays import assert_all_equal
from support.closed_forms import softmax
from support.formulas import (
    check_regularizer,
    divergence,
    normalize_rows,
    regularized_model,
    worst_perturbation,
)
from support.networks import read_weights
from support.pair import PAIR, SOURCE, TARGET
from support.training_step import MODES

from dann.adaptation import AdversarialModel, VirtualAdversarial
from dann.adaptation.batch import Batch

WEIGHT, RADIUS = 1.7, 0.8


@pytest.mark.parametrize("source_weight", [0.0, 0.6])
@pytest.mark.parametrize("mode", MODES)
def test_virtual_adversarial_loss_and_gradients_match_the_formula(mode, source_weight, monkeypatch):
    # XLA draws different numbers from the same seed.
    directions = np.random.default_rng(8).normal(size=(2, *TARGET.shape)).astype("float32")
    draws = itertools.cycle(directions if source_weight else directions[:1])
    noise = map(ops.convert_to_tensor, draws)
    monkeypatch.setattr(keras.random, "normal", lambda shape, seed: next(noise))
    vat = VirtualAdversarial(WEIGHT, RADIUS, source_weight=source_weight, seed=4)
    model = regularized_model(vat)
    a, b = read_weights(model)
    parts = [(1.0, TARGET, directions[0]), (source_weight, SOURCE, directions[1])]
    # Constants of the gradient: the clean predictions and the perturbation.
    constants = [
        (factor, x + worst_perturbation(x, d, a @ b, RADIUS), softmax(x @ a @ b))
        for factor, x, d in parts
    ]

    def loss(a, b):
        return sum(factor * divergence(p, softmax(x @ a @ b)) for factor, x, p in constants)

    # Single precision rounds the slope at the probe, a hundredth of the radius, to 1e-4.
    check_regularizer(model, mode, loss, rtol=2e-3, atol=1e-4)


def make_model(vat, *layers, classes=3):
    backbone = keras.Sequential(list(layers))
    return AdversarialModel(backbone, num_classes=classes, strength=None, regularizers=[vat])


def vat_loss(vat, model, pair):
    batch = Batch({}, {}, {}, raw_inputs=pair)
    return vat.losses(model, batch, None, True)["vat/loss"]


def compute_loss(vat, model, target):
    return float(ops.convert_to_numpy(vat_loss(vat, model, {"target": target})))


@pytest.mark.tensorflow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_finds_equally_bad_perturbation(policy):
    """Each pixel moves by less than half precision resolves, and its slope is tiny."""
    images = np.random.default_rng(0).integers(0, 256, (16, 28, 28, 3)).astype("uint8")
    losses, models = [], []
    for precision in ("float32", policy):
        keras.config.set_dtype_policy(precision)
        layers = [keras.Input((28, 28, 3)), keras.layers.Rescaling(1 / 255)]
        layers += [keras.layers.Flatten(), keras.layers.Dense(32, activation="relu")]
        vat = VirtualAdversarial(radius=100.0, seed=4)
        models.append(make_model(vat, *layers, classes=10))
        models[-1].set_weights(models[0].get_weights())
        losses.append(compute_loss(vat, models[-1], images))
    directions = normalize_rows(np.random.default_rng(1).normal(size=(16, 28 * 28 * 3)))
    perturbed = images + 100 * directions.reshape(images.shape)
    clean, perturbed_p = (
        softmax(ops.convert_to_numpy(models[0].classifier(x)).astype("float64"))
        for x in (images, perturbed)
    )
    assert losses[1] == pytest.approx(losses[0], rel=0.15)
    assert losses[1] > 10 * divergence(clean, perturbed_p)


def test_classifier_state_does_not_change():
    vat = VirtualAdversarial(radius=1.0, seed=4)
    layers = keras.layers.Dropout(0.5, seed=1), keras.layers.BatchNormalization()
    model = make_model(vat, keras.Input((3,)), *layers)
    before = [np.array(v) for v in model.backbone.variables + model.label_head.variables]
    noise = np.array(vat.generator.state)
    vat_loss(vat, model, PAIR)
    assert_all_equal(model.backbone.variables + model.label_head.variables, before)
    assert (np.array(vat.generator.state) != noise).any()


def test_constant_classifier_has_no_perturbation():
    vat = VirtualAdversarial(radius=1.0)
    model = regularized_model(vat)
    for weight in model.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    assert not ops.any(vat_loss(vat, model, PAIR))
