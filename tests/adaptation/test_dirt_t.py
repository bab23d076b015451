"""DIRT-T's loss, gradients and teacher, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.arrays import LABELS, PAIR, TARGET, assert_all_close, assert_all_equal
from support.closed_forms import central_differences, divergence, entropy, softmax, vat_perturbation
from support.networks import linear_parts, read_weights, with_random_weights
from support.training_step import MODES, label_loss, step

from dann.adaptation import DANN, DIRTT
from dann.networks import label_head, mlp_backbone

RADIUS, TEACHER_WEIGHT = 0.8, 0.6
RNG = np.random.default_rng(7)
TEACHER = [RNG.normal(size=(3, 4)), RNG.normal(size=(4, 3))]
DIRECTION = RNG.normal(size=TARGET.shape).astype("float32")


@pytest.fixture
def constant_noise(monkeypatch):
    """Draws `DIRECTION` in all modes; XLA draws different numbers from the same seed."""
    noise = keras.ops.convert_to_tensor(DIRECTION)
    monkeypatch.setattr(keras.random, "normal", lambda shape, seed: noise)


def make_terms(a, b):
    """Returns each term as a function of the weights; constants of the gradient are fixed."""
    clean = softmax(TARGET @ a @ b)
    perturbed = TARGET + vat_perturbation(TARGET, DIRECTION, a @ b, RADIUS)
    teacher = softmax(TARGET @ TEACHER[0] @ TEACHER[1])
    return {
        "teacher": lambda a, b: divergence(teacher, softmax(TARGET @ a @ b)),
        "entropy": lambda a, b: entropy(softmax(TARGET @ a @ b)),
        "vat": lambda a, b: divergence(clean, softmax(perturbed @ a @ b)),
    }


# Single precision rounds the slope at VAT's probe, a hundredth of the radius, to 1e-4.
@pytest.mark.parametrize(
    ("target_weight", "tolerance"), [(1.7, {"rtol": 2e-3, "atol": 1e-4}), (0.0, {"rtol": 1e-4})]
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("constant_noise")
def test_dirt_t_loss_and_gradients_match_the_formula(mode, target_weight, tolerance):
    factors = {"target_weight": target_weight, "teacher_weight": TEACHER_WEIGHT}
    model = with_random_weights(DIRTT(**linear_parts(), radius=RADIUS, **factors))
    model.teacher.set_weights(TEACHER)
    model.step.assign(1)
    a, b = read_weights(model)
    terms = make_terms(a, b)
    weights = {"teacher": TEACHER_WEIGHT, "entropy": target_weight, "vat": target_weight}

    def total(a, b):
        return sum(weight * terms[name](a, b) for name, weight in weights.items())

    logs, slopes = step(model, mode)
    for name, term in terms.items():
        assert logs[f"{name}/loss"] == pytest.approx(term(a, b), rel=1e-3)
    assert logs["loss"] == pytest.approx(total(a, b), rel=1e-3)
    assert logs["label/loss"] == pytest.approx(label_loss(a, b), rel=1e-5)
    assert_all_close(slopes, central_differences(total, [a, b]), **{"atol": 1e-6, **tolerance})


def deep_dirt_t(refresh_steps):
    """Returns a model with batch normalization, whose statistics are also weights."""
    layers = keras.layers.Dense(5, activation="tanh"), keras.layers.BatchNormalization()
    keras.utils.set_random_seed(1)
    backbone, head = keras.Sequential([keras.Input((3,)), *layers]), label_head(5, 3, ())
    settings = {"radius": RADIUS, "refresh_steps": refresh_steps, "seed": 1}
    settings |= {"teacher_weight": 1.0, "target_weight": 1.0}
    return with_random_weights(DIRTT(backbone, label_head=head, **settings))


def fit(model, steps, **options):
    """Trains `steps` steps on the same batch."""
    model.compile(keras.optimizers.SGD(0.1), metrics=["accuracy"], **options)
    batches = ((PAIR, LABELS) for _ in range(steps))
    model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)


@pytest.mark.usefixtures("constant_noise")
def test_teacher_copies_classifier_at_interval_start():
    """After three steps at an interval of two, the teacher is the classifier before step 3."""
    before, after = deep_dirt_t(refresh_steps=2), deep_dirt_t(refresh_steps=2)
    fit(before, 2, run_eagerly=True)
    fit(after, 3, steps_per_execution=3)
    assert int(after.step) == 3
    assert_all_close(after.teacher.weights, before.classifier.weights, rtol=1e-3, atol=2e-5)
    # After two steps the teacher was still the initial classifier.
    for old, new in zip(before.teacher.weights, after.teacher.weights, strict=True):
        assert np.abs(np.array(old) - np.array(new)).max() > 1e-4


def test_teacher_is_constant_in_inference_mode():
    model = deep_dirt_t(refresh_steps=100)
    fit(model, 3, run_eagerly=True)
    assert not set(map(id, model.teacher.weights)) & set(map(id, model.trainable_variables))
    expected = keras.ops.convert_to_numpy(model.teacher(TARGET, training=False))
    batch = model(PAIR, training=True)
    logits = keras.ops.convert_to_numpy(batch.logits["target"])
    loss = model.loss_terms(batch._replace(labels=LABELS))["teacher/loss"]
    expected_loss = divergence(softmax(expected), softmax(logits))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(loss), expected_loss, rtol=1e-5)
    assert np.abs(logits - expected).max() > 0.01


def test_second_stage_starts_from_first_stage():
    first = DANN(mlp_backbone((3,), hidden_units=(6,)), label_head=label_head(6, 3))
    initial_weights = first.get_weights()
    second = DIRTT.from_model(first, radius=RADIUS, refresh_steps=7)
    np.testing.assert_array_equal(second.predict(TARGET), first.predict(TARGET))
    fit(second, 2, run_eagerly=True)
    assert keras.ops.any(second(TARGET) != first(TARGET))
    assert_all_equal(initial_weights, first.get_weights())
    assert second.refresh_steps == 7
