"""Virtual adversarial training against NumPy on a linear network."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops
from support.arrays import assert_all_close, assert_all_equal
from support.closed_forms import central_differences, cross_entropy, softmax
from support.networks import linear_parts, weights_of, with_random_weights
from support.one_step import MODES, step
from support.pair import LABELS, PAIR, SOURCE, TARGET

from dann.adaptation import AdversarialModel, VirtualAdversarial

WEIGHT, RADIUS = 1.7, 0.8


def model_with(regularizer):
    parts = linear_parts()
    return with_random_weights(AdversarialModel(**parts, strength=None, regularizers=[regularizer]))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def divergence(p, q):
    return np.mean(np.sum(p * np.log(p / q), axis=1))


def worst(inputs, direction, w, radius):
    """r_adv; dKL(p || softmax(z))/dz = softmax(z) - p, and z = (x + r) W."""
    probe = 0.01 * radius * unit(direction)
    slope = (softmax((inputs + probe) @ w) - softmax(inputs @ w)) @ w.T
    return radius * unit(slope)


@pytest.mark.parametrize("source_weight", [0.0, 0.6])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, source_weight, monkeypatch):
    # XLA draws other numbers from the same seed.
    directions = np.random.default_rng(8).normal(size=(2, *TARGET.shape)).astype("float32")
    used = itertools.cycle(directions if source_weight else directions[:1])
    drawn = map(ops.convert_to_tensor, used)
    monkeypatch.setattr(keras.random, "normal", lambda shape, seed: next(drawn))
    vat = VirtualAdversarial(WEIGHT, RADIUS, source_weight=source_weight, seed=4)
    model = model_with(vat)
    a, b = weights_of(model)
    parts = [(1.0, TARGET, directions[0]), (source_weight, SOURCE, directions[1])]
    # Constants to the gradient: the clean predictions and the perturbation.
    fixed = [(factor, x + worst(x, d, a @ b, RADIUS), softmax(x @ a @ b)) for factor, x, d in parts]

    def loss(a, b):
        return sum(factor * divergence(p, softmax(x @ a @ b)) for factor, x, p in fixed)

    def total(a, b):
        return cross_entropy(SOURCE @ a @ b, LABELS) + WEIGHT * loss(a, b)

    gradients = central_differences(total, [a, b])
    logs, slopes = step(model, mode)
    assert logs["vat/loss"] == pytest.approx(loss(a, b), rel=1e-3)
    # Single precision rounds the slope at the probe, of a hundredth of the radius, to 1e-4.
    assert_all_close(slopes, gradients, rtol=2e-3, atol=1e-4)


def test_the_perturbation_does_more_than_a_random_one_of_the_same_length():
    vat = VirtualAdversarial(1.0, RADIUS, seed=4)
    model = model_with(vat)
    a, b = weights_of(model)
    rng = np.random.default_rng(0)
    by_chance = [
        divergence(softmax(TARGET @ a @ b), softmax((TARGET + RADIUS * unit(r)) @ a @ b))
        for r in rng.normal(size=(200, *TARGET.shape))
    ]
    assert float(ops.convert_to_numpy(vat.loss(model, PAIR, {}))) > 1.5 * np.mean(by_chance)


def test_integer_images_are_perturbed_in_their_own_units():
    """Inputs of 0 to 255 that the network divides, and the same divided before."""
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 1)).astype("uint8")
    losses = []
    for scale, x, radius in ((1 / 255, images, 51.0), (1.0, images / np.float32(255), 0.2)):
        entry = keras.Input((4, 4, 1))
        features = keras.layers.Flatten()(keras.layers.Rescaling(scale)(entry))
        vat = VirtualAdversarial(radius=radius, seed=4)
        model = AdversarialModel(
            keras.Model(entry, features), num_classes=3, strength=None, regularizers=[vat]
        )
        with_random_weights(model)
        losses.append(float(ops.convert_to_numpy(vat.loss(model, {"target": x}, {}))))
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    assert losses[0] > 0


def test_tokens_are_refused_because_no_gradient_reaches_them():
    vat = VirtualAdversarial(radius=1.0, seed=4)
    layers = [
        keras.Input((5,), dtype="int32"),
        keras.layers.Embedding(9, 4),
        keras.layers.Flatten(),
    ]
    model = AdversarialModel(
        keras.Sequential(layers), num_classes=3, strength=None, regularizers=[vat]
    )
    tokens = np.arange(10).reshape(2, 5) % 9
    with pytest.raises(ValueError, match="must be floating-point.* Received: .*int"):
        vat.loss(model, {"target": tokens}, {})


@pytest.mark.tensorflow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_finds_as_bad_a_perturbation_of_images(policy):
    """Where a pixel moves by less than half precision tells apart, and its slope is tiny."""
    images = np.random.default_rng(0).integers(0, 256, (16, 28, 28, 3)).astype("uint8")
    losses, models = [], []
    for precision in ("float32", policy):
        keras.config.set_dtype_policy(precision)
        entry = keras.Input((28, 28, 3))
        flat = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(entry))
        features = keras.layers.Dense(32, activation="relu")(flat)
        vat = VirtualAdversarial(radius=100.0, seed=4)
        model = AdversarialModel(
            keras.Model(entry, features), num_classes=10, strength=None, regularizers=[vat]
        )
        models.append(model)
        model.set_weights(models[0].get_weights())
        losses.append(float(vat.loss(model, {"target": images}, {})))
    at_random = unit(np.random.default_rng(1).normal(size=(16, 28 * 28 * 3)))
    moved = images + 100 * at_random.reshape(images.shape)
    clean, other = (
        softmax(keras.ops.convert_to_numpy(models[0].classifier(x)).astype("float64"))
        for x in (images, moved)
    )
    assert losses[1] == pytest.approx(losses[0], rel=0.15)
    assert losses[1] > 10 * divergence(clean, other)


def test_it_does_not_change_the_state_of_the_classifier():
    entry = keras.Input((3,))
    normalized = keras.layers.BatchNormalization()(keras.layers.Dropout(0.5, seed=1)(entry))
    vat = VirtualAdversarial(radius=1.0, seed=4)
    model = AdversarialModel(
        keras.Model(entry, normalized), num_classes=3, strength=None, regularizers=[vat]
    )
    before = [np.array(v) for v in model.backbone.variables + model.label_head.variables]
    drawn = np.array(vat.generator.state)
    vat.loss(model, PAIR, {})
    assert_all_equal(model.backbone.variables + model.label_head.variables, before)
    assert (np.array(vat.generator.state) != drawn).any()


def test_inputs_that_nothing_depends_on_have_no_perturbation():
    vat = VirtualAdversarial(radius=1.0)
    model = model_with(vat)
    for weight in model.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    assert not ops.any(vat.loss(model, PAIR, {}))
