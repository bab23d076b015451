"""PADA's loss, gradients and class weights, against NumPy on a linear network."""

import functools

import keras
import numpy as np
import pytest
from support.closed_forms import softmax
from support.formulas import binary_losses, linear_model
from support.networks import linear, read_weights
from support.pair import LABELS, PAIR, SOURCE, TARGET
from support.training_step import MODES, check_adversarial_step, step

from dann.adaptation import PADA

CLASS_WEIGHTS = np.array([0.3, 1.0, 0.6])
SAMPLE_WEIGHTS = np.array([2.0, 0.0, 1.0, 0.5, 3.0])


def linear_pada(class_weights=CLASS_WEIGHTS, **kwargs):
    """d = f w."""
    model = linear_model(PADA, domain_head=linear(4, 1, "domain_head"), **kwargs)
    model.class_weights.assign(class_weights)
    return model


def label_loss(a, b, sample_weights=1.0):
    probabilities = softmax(SOURCE @ a @ b)[np.arange(5), LABELS]
    return -np.mean(sample_weights * CLASS_WEIGHTS[LABELS] * np.log(probabilities))


def domain_loss(a, w, smoothing=0.0):
    """Returns half the sum of the means of the weighted source and of the target."""
    source_weights = CLASS_WEIGHTS[LABELS] * binary_losses(SOURCE @ a @ w, smoothing)[:, 0]
    return (np.mean(source_weights) + np.mean(binary_losses(TARGET @ a @ w, 1 - smoothing))) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("mode", MODES)
def test_pada_loss_and_gradients_match_the_formula(mode, smoothing):
    model = linear_pada(domain_label_smoothing=smoothing)
    loss = functools.partial(domain_loss, smoothing=smoothing)
    check_adversarial_step(model, mode, "domain/loss", loss, label_loss)


@pytest.mark.parametrize("mode", MODES)
def test_class_weights_follow_target_predictions(mode):
    model = linear_pada(momentum=0.8)
    a, b, _ = read_weights(model)
    prediction = softmax(TARGET @ a @ b).mean(axis=0)
    average = 0.8 * CLASS_WEIGHTS / CLASS_WEIGHTS.sum() + 0.2 * prediction
    step(model, mode)
    class_weights = np.array(model.class_weights)
    np.testing.assert_allclose(class_weights, average / average.max(), rtol=1e-5)
    assert class_weights.max() == 1.0


def test_evaluation_does_not_update_class_weights():
    model = linear_pada()
    model.compile(keras.optimizers.SGD(1.0))
    logs = model.evaluate(PAIR, LABELS, batch_size=5, verbose=0, return_dict=True)
    assert logs["label/loss"] == pytest.approx(label_loss(*read_weights(model)[:2]), rel=1e-5)
    np.testing.assert_array_equal(model.class_weights, CLASS_WEIGHTS.astype("float32"))


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_sample_weights_multiply_class_weights_in_label_loss(shape):
    model = linear_pada()
    a, b, w = read_weights(model)
    weights = SAMPLE_WEIGHTS.reshape(shape)
    logs, _ = step(model, "graph", y=LABELS.reshape(shape), sample_weight=weights)
    assert logs["label/loss"] == pytest.approx(label_loss(a, b, SAMPLE_WEIGHTS), rel=1e-5)
    assert logs["domain/loss"] == pytest.approx(domain_loss(a, w), rel=1e-5)


@pytest.mark.parametrize("sample_weights", [None, np.arange(7.0)[:, None]])
def test_labeled_target_has_class_weight_1(sample_weights):
    """Sample weights, here `(7, 1)`, multiply the class weight of 1."""
    model = linear_pada()
    a, b, w = read_weights(model)
    extra, extra_labels = TARGET[:2] + 1, np.array([0, 2])
    pair = {**PAIR, "target_labeled": extra}
    labels = np.concatenate([LABELS, extra_labels])
    model.compile(keras.optimizers.SGD(0.0))
    logs = model.train_on_batch(pair, labels, sample_weights, return_dict=True)
    extra_losses = -np.log(softmax(extra @ a @ b)[np.arange(2), extra_labels])
    source_weights, extra_weights = np.split(
        np.ones(7) if sample_weights is None else np.arange(7.0), [5]
    )
    expected = (5 * label_loss(a, b, source_weights) + extra_weights @ extra_losses) / 7
    assert logs["label/loss"] == pytest.approx(expected, rel=1e-5)
    assert logs["domain/loss"] == pytest.approx(domain_loss(a, w), rel=1e-5)
