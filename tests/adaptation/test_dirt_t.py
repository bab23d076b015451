"""DIRT-T's loss, gradients and teacher, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support import lacking
from support.arrays import assert_all_close, assert_all_equal
from support.closed_forms import central_differences, cross_entropy, softmax
from support.networks import linear_parts, weights_of, with_random_weights
from support.one_step import MODES, step
from support.pair import LABELS, PAIR, SOURCE, TARGET
from support.shifted_classes import (
    SEEDS,
    linear_backbone,
    nearer_classes,
    source_only_accuracies,
)

from dann.adaptation import DANN, DIRTT
from dann.networks import label_head, mlp_backbone

RADIUS, TEACHER_WEIGHT = 0.8, 0.6
RNG = np.random.default_rng(7)
TEACHER = [RNG.normal(size=(3, 4)), RNG.normal(size=(4, 3))]
DIRECTION = RNG.normal(size=TARGET.shape).astype("float32")


def linear_dirt_t(**kwargs):
    """f = x A, c = f B; the teacher has the weights `TEACHER` and is not refreshed."""
    model = with_random_weights(DIRTT(**linear_parts(), radius=RADIUS, **kwargs))
    model.teacher.set_weights(TEACHER)
    model.step.assign(1)
    return model


def divergence(p, q):
    return np.mean(np.sum(p * np.log(p / q), axis=1))


def worst(w):
    """The perturbation; dKL(p || softmax(z))/dz = softmax(z) - p, and z = (x + r) W."""
    probe = 0.01 * RADIUS * DIRECTION / np.linalg.norm(DIRECTION, axis=1, keepdims=True)
    slope = (softmax((TARGET + probe) @ w) - softmax(TARGET @ w)) @ w.T
    return RADIUS * slope / np.linalg.norm(slope, axis=1, keepdims=True)


def terms_at(a, b):
    """Each term as a function of the weights, with what is a constant to the gradient fixed."""
    perturbed, clean = TARGET + worst(a @ b), softmax(TARGET @ a @ b)
    teacher = softmax(TARGET @ TEACHER[0] @ TEACHER[1])

    def entropy(a, b):
        p = softmax(TARGET @ a @ b)
        return -np.mean(np.sum(p * np.log(p), axis=1))

    return {
        "teacher": lambda a, b: divergence(teacher, softmax(TARGET @ a @ b)),
        "entropy": entropy,
        "vat": lambda a, b: divergence(clean, softmax(perturbed @ a @ b)),
    }


# Single precision rounds the slope at VAT's probe, of a hundredth of the radius, to 1e-4.
@pytest.mark.parametrize(
    ("target_weight", "tolerance"), [(1.7, {"rtol": 2e-3, "atol": 1e-4}), (0.0, {"rtol": 1e-4})]
)
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, target_weight, tolerance, monkeypatch):
    # XLA draws other numbers from the same seed.
    drawn = keras.ops.convert_to_tensor(DIRECTION)
    monkeypatch.setattr(keras.random, "normal", lambda shape, seed: drawn)
    model = linear_dirt_t(target_weight=target_weight, teacher_weight=TEACHER_WEIGHT)
    a, b = weights_of(model)
    terms = terms_at(a, b)
    weights = {"teacher": TEACHER_WEIGHT, "entropy": target_weight, "vat": target_weight}

    def total(a, b):
        return sum(weight * terms[name](a, b) for name, weight in weights.items())

    value, gradients = total(a, b), central_differences(total, [a, b])
    watched = cross_entropy(SOURCE @ a @ b, LABELS)
    logs, slopes = step(model, mode)
    for name, term in terms.items():
        assert logs[f"{name}/loss"] == pytest.approx(term(a, b), rel=1e-3)
    assert logs["loss"] == pytest.approx(value, rel=1e-3)
    assert logs["label/loss"] == pytest.approx(watched, rel=1e-5)
    assert_all_close(slopes, gradients, **{"atol": 1e-6, **tolerance})


def deep_dirt_t(**kwargs):
    """With batch normalization, whose statistics are weights too."""
    entry = keras.Input((3,))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(5, activation="tanh")(entry))
    keras.utils.set_random_seed(1)
    backbone = keras.Model(entry, hidden)
    arguments = {"radius": RADIUS, "seed": 1, "teacher_weight": 1.0, "target_weight": 1.0}
    head = label_head(5, 3, hidden_units=())
    return with_random_weights(DIRTT(backbone, label_head=head, **{**arguments, **kwargs}))


def fit(model, target, steps=1, source=SOURCE, y=LABELS, **kwargs):
    """Trains `steps` steps on the same batch."""
    model.compile(keras.optimizers.SGD(0.1), metrics=["accuracy"], **kwargs)
    batches = (({"source": source, "target": target}, y) for _ in range(steps))
    return model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0).history


@pytest.mark.parametrize(
    "mode", ["eager", pytest.param("several steps at once", marks=lacking.several_steps)]
)
def test_the_teacher_is_the_classifier_at_the_start_of_the_interval(mode, monkeypatch):
    """Three steps at an interval of two: that before the third."""
    # XLA draws other numbers from the same seed.
    drawn = keras.ops.convert_to_tensor(DIRECTION)
    monkeypatch.setattr(keras.random, "normal", lambda shape, seed: drawn)
    before, after = deep_dirt_t(refresh_steps=2), deep_dirt_t(refresh_steps=2)
    fit(before, TARGET, 2, run_eagerly=True)
    together = {"steps_per_execution": 3}
    fit(after, TARGET, 3, **({"run_eagerly": True} if mode == "eager" else together))
    assert int(after.step) == 3
    assert_all_close(after.teacher.weights, before.classifier.weights, rtol=1e-3, atol=2e-5)
    # After two steps it was that before the first still.
    moved = [
        np.abs(np.array(one) - np.array(other)).max()
        for one, other in zip(before.teacher.weights, after.teacher.weights, strict=True)
    ]
    assert min(moved) > 1e-4


def test_the_teacher_is_a_constant_in_inference_mode():
    model = deep_dirt_t(refresh_steps=100)
    fit(model, TARGET, 3, run_eagerly=True)
    assert not set(map(id, model.teacher.weights)) & set(map(id, model.trainable_variables))
    expected = keras.ops.convert_to_numpy(model.teacher(TARGET, training=False))
    batch = model(PAIR, training=True)
    log_p, log_q = map(keras.ops.log_softmax, (batch.logits["target"], expected))
    wanted = keras.ops.mean(keras.ops.sum(keras.ops.exp(log_q) * (log_q - log_p), axis=-1))
    found = model.loss_terms(PAIR, LABELS, batch)["teacher/loss"]
    found, wanted = map(keras.ops.convert_to_numpy, (found, wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    logits = keras.ops.convert_to_numpy(batch.logits["target"])
    assert np.abs(logits - expected).max() > 0.01


@pytest.mark.parametrize("augmentation", [None, {"target": keras.layers.Rescaling(2.0)}])
def test_it_learns_from_the_target_alone(augmentation):
    """A pair, one with another source and other labels, and one with another target."""
    fits = [
        (TARGET, SOURCE, LABELS),
        (TARGET, 3 * SOURCE, (LABELS + 1) % 3),
        (2 * TARGET, SOURCE, LABELS),
    ]
    weights, histories = [], []
    for target, source, y in fits:
        model = deep_dirt_t(augmentation=augmentation)
        histories.append(fit(model, target, 2, source, y, run_eagerly=True))
        weights.append([np.array(weight) for weight in model.classifier.weights])
    for first, *others, changed in zip(*weights, strict=True):
        for other in others:
            np.testing.assert_allclose(first, other, rtol=1e-5, atol=1e-7)
        assert np.abs(first - changed).max() > 0
    logged = {"loss", "teacher/loss", "entropy/loss", "vat/loss"}
    assert set(histories[0]) == {*logged, "label/loss", "accuracy"}
    assert histories[1]["loss"] == pytest.approx(histories[0]["loss"], rel=1e-5)


@pytest.mark.parametrize("mode", MODES[:2])
def test_regularization_of_the_classifier_counts_once_a_domain_and_has_its_gradient(mode):
    decay = keras.regularizers.L2(0.5)
    regularized = keras.layers.Dense(
        4, use_bias=False, activity_regularizer="L2", kernel_regularizer=decay
    )
    entry = keras.Input((3,))
    options = {"radius": 1.0, "target_weight": 0.0, "teacher_weight": 0.0}
    model = DIRTT(keras.Model(entry, regularized(entry)), num_classes=3, **options)
    before = regularized.get_weights()[0]
    (loss,) = fit(model, TARGET, run_eagerly=mode == "eager")["loss"]
    factor = regularized.activity_regularizer.l2 / len(TARGET)
    passes = [domain.T @ domain @ before for domain in (SOURCE, TARGET)]  # one a domain
    of_outputs = sum(np.sum((domain @ before) ** 2) for domain in (SOURCE, TARGET))
    assert loss == pytest.approx(factor * of_outputs + 0.5 * np.sum(before**2), rel=1e-5)
    slope = 2 * factor * sum(passes) + before
    moved = before - regularized.get_weights()[0]
    np.testing.assert_allclose(moved, 0.1 * slope, rtol=1e-4, atol=1e-7)


def test_the_second_stage_starts_from_the_first_and_does_not_change_it():
    first = DANN(mlp_backbone((3,), hidden_units=(6,)), label_head=label_head(6, 3))
    kept = first.get_weights()
    second = DIRTT.from_model(first, radius=RADIUS, refresh_steps=7)
    np.testing.assert_array_equal(second.predict(TARGET), first.predict(TARGET))
    fit(second, TARGET, 2, run_eagerly=True)
    assert keras.ops.any(second(TARGET) != first(TARGET))
    assert_all_equal(kept, first.get_weights())
    assert second.refresh_steps == 7


@pytest.mark.tensorflow
def test_it_adapts_where_the_first_stage_leaves_errors():
    """The first stage is the best source classifier; its boundary runs through a target class."""
    head = label_head(2, 2, hidden_units=())
    model = DIRTT(linear_backbone(), label_head=head, radius=0.6, refresh_steps=50, seed=0)
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(optimizer, steps_per_execution=20)
    rate = np.array(optimizer.learning_rate)
    # The log odds of two normal classes at -1 and 1 of deviation .3: 2 x / .09.
    slopes = np.array([[-1.0, 1.0], [0.0, 0.0]]) / 0.09
    accuracies = []
    for seed in SEEDS:
        for variable in optimizer.variables:
            variable.assign(np.zeros_like(variable))
        optimizer.learning_rate = rate
        model.classifier.set_weights([np.eye(2), slopes, np.zeros(2)])
        model.step.assign(0)
        target, labels = nearer_classes(seed)[2:]
        chosen = np.random.default_rng(seed).integers(len(target), size=100 * 64)
        pairs = {"source": target[chosen], "target": target[chosen]}
        model.fit(pairs, labels[chosen], batch_size=64, shuffle=False, verbose=0)
        logits = keras.ops.convert_to_numpy(model(target))
        accuracies.append(np.mean(np.argmax(logits, axis=1) == labels))
    assert np.mean(accuracies) > source_only_accuracies(nearer_classes).mean() + 0.14, accuracies
