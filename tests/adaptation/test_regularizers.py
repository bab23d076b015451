"""Regularizers with their gradients, against NumPy on a linear network."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops
from support import closed_forms
from support.arrays import LABELS, PAIR, SOURCE, TARGET, assert_all_close, assert_all_equal
from support.closed_forms import certainty_weights, confusion, divergence, normalize_rows, softmax
from support.networks import read_weights, regularized_model
from support.training_step import MODES, check_regularizer, step

import dann
from dann.adaptation.batch import Batch


def coral(source, target):
    size = source.shape[1]
    difference = np.cov(source, rowvar=False) - np.cov(target, rowvar=False)
    return np.sum(difference**2) / (4 * size**2)


LOSSES = {
    dann.ConditionalEntropy: lambda a, b: closed_forms.entropy(softmax(TARGET @ a @ b)),
    dann.CORAL: lambda a, b: coral(SOURCE @ a, TARGET @ a),
}


@pytest.mark.parametrize("regularizer", LOSSES)
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradients_match_the_formula(mode, regularizer):
    check_regularizer(regularized_model(regularizer(1.7)), mode, LOSSES[regularizer])


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("mode", MODES)
def test_mcc_loss_and_gradients_match_the_formula(mode, temperature):
    model = regularized_model(dann.MCC(1.7, temperature))

    def predictions(a, b):
        return softmax(TARGET @ a @ b / temperature)

    constant = certainty_weights(predictions(*read_weights(model)))
    check_regularizer(model, mode, lambda a, b: confusion(predictions(a, b), constant))


@pytest.mark.parametrize(
    ("regularizer", "logits", "expected"),
    [
        (dann.ConditionalEntropy(), [[5.0, 5.0, 5.0]], np.log(3)),
        (dann.ConditionalEntropy(), [[1e4, 0.0, -1e4]], 0.0),
        (dann.MCC(temperature=1.0), 50 * np.eye(3), 0),  # every class is certain
        (dann.MCC(temperature=1.0), np.zeros((4, 3)), 2 / 3),  # chance
        # A class that is never predicted has no confusion.
        (dann.MCC(temperature=1.0), [[0.0, 0.0, -1e4]], 1 / 3),
    ],
)
def test_loss_at_its_bounds(regularizer, logits, expected):
    batch = Batch({}, {}, {"target": np.array(logits, "float32")})
    (loss,) = regularizer.losses(None, batch, None, False).values()
    assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_coral_counts_positions_of_maps_as_examples():
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(2, 4, 3, 2, 5)).astype("float32")
    batch = Batch({}, {"source": source, "target": 100 + 2 * target}, {})
    loss = dann.CORAL().losses(None, batch, None, False)["coral/loss"]
    expected = coral(source.reshape(-1, 5), 2 * target.reshape(-1, 5))
    assert float(loss) == pytest.approx(expected, rel=1e-4)


WEIGHT = 1.7


def compute_ensembling_loss(p, q, threshold, balance=0.005):
    is_certain = q.max(axis=1) > threshold
    m, y = p.mean(axis=0), 1 / p.shape[1]
    entropies = -y * np.log(m) - (1 - y) * np.log(1 - m)
    disagreement = np.mean(is_certain * np.mean((p - q) ** 2, axis=1))
    return disagreement + balance * is_certain.mean() * entropies.sum()


# The decays are below and above 3 / 4, the value of n / (n + 1) at step 3.
@pytest.mark.parametrize("decay", [0.4, 0.95])
@pytest.mark.parametrize("mode", MODES)
def test_self_ensembling_loss_and_gradients_match_the_formula(mode, decay):
    regularizer = dann.SelfEnsembling(WEIGHT, threshold=0.6, decay=decay, balance=0.4)
    model = regularized_model(regularizer)
    teacher, rng = regularizer.teacher.network, np.random.default_rng(5)
    teacher.set_weights([rng.normal(size=weight.shape) for weight in teacher.weights])
    regularizer.teacher.step.assign(3)
    before, weights = teacher.get_weights(), read_weights(model)
    share = min(decay, 3 / 4)
    v, w = (share * old + (1 - share) * new for old, new in zip(before, weights, strict=True))
    q = softmax(TARGET @ v @ w)
    assert 0 < np.sum(q.max(axis=1) > 0.6) < len(q)
    check_regularizer(
        model, mode, lambda a, b: compute_ensembling_loss(softmax(TARGET @ a @ b), q, 0.6, 0.4)
    )
    assert_all_close(teacher.get_weights(), [v, w], rtol=1e-5)
    assert int(regularizer.teacher.step) == 4


def test_teacher_averages_moving_statistics():
    backbone = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
    regularizer = dann.SelfEnsembling()
    model = dann.DANN(backbone, num_classes=3, regularizers=[regularizer])
    model.compile("sgd")
    model.fit(PAIR, LABELS, batch_size=5, verbose=0)
    mean = keras.ops.convert_to_numpy(backbone.layers[0].moving_mean)
    model.fit(PAIR, LABELS, batch_size=5, verbose=0)
    teacher_mean = regularizer.teacher.network.weights[2]
    assert teacher_mean.name == "moving_mean"
    # The average of the statistics before the first step, 0, and before the second.
    assert_all_close(keras.ops.convert_to_numpy(teacher_mean), mean / 2)


def test_teacher_receives_images_without_augmentation():
    doubled = {"target": [keras.layers.Rescaling(2.0)]}
    model = regularized_model(dann.SelfEnsembling(WEIGHT, threshold=0.0), augmentation=doubled)
    a, b = read_weights(model)
    loss = compute_ensembling_loss(softmax(2 * TARGET @ a @ b), softmax(TARGET @ a @ b), 0.0)
    logs, _ = step(model, "graph")
    assert loss > 1e-3
    assert logs["self_ensembling/loss"] == pytest.approx(loss, rel=1e-4)


VAT_WEIGHT, RADIUS = 1.7, 0.8


@pytest.mark.parametrize("source_weight", [0.0, 0.6])
@pytest.mark.parametrize("mode", MODES)
def test_virtual_adversarial_loss_and_gradients_match_the_formula(mode, source_weight, monkeypatch):
    # XLA draws different numbers from the same seed.
    directions = np.random.default_rng(8).normal(size=(2, *TARGET.shape)).astype("float32")
    draws = itertools.cycle(directions if source_weight else directions[:1])
    noise = map(ops.convert_to_tensor, draws)
    monkeypatch.setattr(keras.random, "normal", lambda shape, seed: next(noise))
    vat = dann.VirtualAdversarial(VAT_WEIGHT, RADIUS, source_weight=source_weight, seed=4)
    model = regularized_model(vat)
    a, b = read_weights(model)
    parts = [(1.0, TARGET, directions[0]), (source_weight, SOURCE, directions[1])]
    # Constants of the gradient: the clean predictions and the perturbation.
    constants = [
        (factor, x + closed_forms.vat_perturbation(x, d, a @ b, RADIUS), softmax(x @ a @ b))
        for factor, x, d in parts
    ]

    def loss(a, b):
        return sum(factor * divergence(p, softmax(x @ a @ b)) for factor, x, p in constants)

    # Single precision rounds the slope at the probe, a hundredth of the radius, to 1e-4.
    check_regularizer(model, mode, loss, rtol=2e-3, atol=1e-4)


def make_model(vat, *layers, classes=3):
    backbone = keras.Sequential(list(layers))
    return dann.AdversarialModel(backbone, num_classes=classes, strength=None, regularizers=[vat])


def vat_loss(vat, model, pair):
    return vat.losses(model, Batch({}, {}, {}, raw_inputs=pair), None, True)["vat/loss"]


def compute_vat_loss(vat, model, target):
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
        vat = dann.VirtualAdversarial(radius=100.0, seed=4)
        models.append(make_model(vat, *layers, classes=10))
        models[-1].set_weights(models[0].get_weights())
        losses.append(compute_vat_loss(vat, models[-1], images))
    directions = normalize_rows(np.random.default_rng(1).normal(size=(16, 28 * 28 * 3)))
    perturbed = images + 100 * directions.reshape(images.shape)
    clean, perturbed_p = (
        softmax(ops.convert_to_numpy(models[0].classifier(x)).astype("float64"))
        for x in (images, perturbed)
    )
    assert losses[1] == pytest.approx(losses[0], rel=0.15)
    assert losses[1] > 10 * divergence(clean, perturbed_p)


def test_classifier_state_does_not_change():
    vat = dann.VirtualAdversarial(radius=1.0, seed=4)
    layers = keras.layers.Dropout(0.5, seed=1), keras.layers.BatchNormalization()
    model = make_model(vat, keras.Input((3,)), *layers)
    before = [np.array(v) for v in model.backbone.variables + model.label_head.variables]
    noise = np.array(vat.generator.state)
    vat_loss(vat, model, PAIR)
    assert_all_equal(model.backbone.variables + model.label_head.variables, before)
    assert (np.array(vat.generator.state) != noise).any()


def test_constant_classifier_has_no_perturbation():
    vat = dann.VirtualAdversarial(radius=1.0)
    model = regularized_model(vat)
    for weight in model.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    assert not ops.any(vat_loss(vat, model, PAIR))
