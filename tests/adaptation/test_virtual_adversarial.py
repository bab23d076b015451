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
from support.networks import read_weights, with_random_weights
from support.pair import PAIR, SOURCE, TARGET
from support.training_step import MODES

from dann.adaptation import AdversarialModel, VirtualAdversarial
from dann.adaptation.batch import Batch

WEIGHT, RADIUS = 1.7, 0.8


@pytest.mark.parametrize("source_weight", [0.0, 0.6])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, source_weight, monkeypatch):
    # XLA draws other numbers from the same seed.
    directions = np.random.default_rng(8).normal(size=(2, *TARGET.shape)).astype("float32")
    used = itertools.cycle(directions if source_weight else directions[:1])
    drawn = map(ops.convert_to_tensor, used)
    monkeypatch.setattr(keras.random, "normal", lambda shape, seed: next(drawn))
    vat = VirtualAdversarial(WEIGHT, RADIUS, source_weight=source_weight, seed=4)
    model = regularized_model(vat)
    a, b = read_weights(model)
    parts = [(1.0, TARGET, directions[0]), (source_weight, SOURCE, directions[1])]
    # Constants to the gradient: the clean predictions and the perturbation.
    fixed = [
        (factor, x + worst_perturbation(x, d, a @ b, RADIUS), softmax(x @ a @ b))
        for factor, x, d in parts
    ]

    def loss(a, b):
        return sum(factor * divergence(p, softmax(x @ a @ b)) for factor, x, p in fixed)

    # Single precision rounds the slope at the probe, of a hundredth of the radius, to 1e-4.
    check_regularizer(model, mode, loss, rtol=2e-3, atol=1e-4)


def model_of(vat, *layers, classes=3):
    backbone = keras.Sequential(list(layers))
    return AdversarialModel(backbone, num_classes=classes, strength=None, regularizers=[vat])


def vat_loss(vat, model, pair):
    batch = Batch({}, {}, {}, raw_inputs=pair)
    return vat.losses(model, batch, None, True)["vat/loss"]


def loss_of(vat, model, target):
    return float(ops.convert_to_numpy(vat_loss(vat, model, {"target": target})))


def test_integer_images_are_perturbed_in_their_own_units():
    """Inputs of 0 to 255 that the network divides, and the same divided before."""
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 1)).astype("uint8")
    losses = []
    for scale, x, radius in ((1 / 255, images, 51.0), (1.0, images / np.float32(255), 0.2)):
        vat = VirtualAdversarial(radius=radius, seed=4)
        rescaling = keras.layers.Rescaling(scale)
        model = model_of(vat, keras.Input((4, 4, 1)), rescaling, keras.layers.Flatten())
        losses.append(loss_of(vat, with_random_weights(model), x))
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    assert losses[0] > 0


@pytest.mark.tensorflow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_finds_as_bad_a_perturbation_of_images(policy):
    """Where a pixel moves by less than half precision tells apart, and its slope is tiny."""
    images = np.random.default_rng(0).integers(0, 256, (16, 28, 28, 3)).astype("uint8")
    losses, models = [], []
    for precision in ("float32", policy):
        keras.config.set_dtype_policy(precision)
        layers = [keras.Input((28, 28, 3)), keras.layers.Rescaling(1 / 255)]
        layers += [keras.layers.Flatten(), keras.layers.Dense(32, activation="relu")]
        vat = VirtualAdversarial(radius=100.0, seed=4)
        models.append(model_of(vat, *layers, classes=10))
        models[-1].set_weights(models[0].get_weights())
        losses.append(loss_of(vat, models[-1], images))
    at_random = normalize_rows(np.random.default_rng(1).normal(size=(16, 28 * 28 * 3)))
    moved = images + 100 * at_random.reshape(images.shape)
    clean, other = (
        softmax(ops.convert_to_numpy(models[0].classifier(x)).astype("float64"))
        for x in (images, moved)
    )
    assert losses[1] == pytest.approx(losses[0], rel=0.15)
    assert losses[1] > 10 * divergence(clean, other)


def test_it_does_not_change_the_state_of_the_classifier():
    vat = VirtualAdversarial(radius=1.0, seed=4)
    layers = keras.layers.Dropout(0.5, seed=1), keras.layers.BatchNormalization()
    model = model_of(vat, keras.Input((3,)), *layers)
    before = [np.array(v) for v in model.backbone.variables + model.label_head.variables]
    drawn = np.array(vat.generator.state)
    vat_loss(vat, model, PAIR)
    assert_all_equal(model.backbone.variables + model.label_head.variables, before)
    assert (np.array(vat.generator.state) != drawn).any()


def test_inputs_that_nothing_depends_on_have_no_perturbation():
    vat = VirtualAdversarial(radius=1.0)
    model = regularized_model(vat)
    for weight in model.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    assert not ops.any(vat_loss(vat, model, PAIR))
