"""The mean teacher and its loss, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import softmax
from support.formulas import check_regularizer, regularized_model
from support.networks import read_weights
from support.pair import LABELS, PAIR, TARGET
from support.training_step import MODES, step

from dann.adaptation import DANN, SelfEnsembling

WEIGHT = 1.7


def read_numbers(network):
    return [keras.ops.convert_to_numpy(weight) for weight in network.weights]


def compute_loss(p, q, threshold, balance=0.005):
    is_certain = q.max(axis=1) > threshold
    m, y = p.mean(axis=0), 1 / p.shape[1]
    entropies = -y * np.log(m) - (1 - y) * np.log(1 - m)
    disagreement = np.mean(is_certain * np.mean((p - q) ** 2, axis=1))
    return disagreement + balance * is_certain.mean() * entropies.sum()


# The decays are below and above 3 / 4, the value of n / (n + 1) at step 3.
@pytest.mark.parametrize("decay", [0.4, 0.95])
@pytest.mark.parametrize("mode", MODES)
def test_self_ensembling_loss_and_gradients_match_the_formula(mode, decay):
    regularizer = SelfEnsembling(WEIGHT, threshold=0.6, decay=decay, balance=0.4)
    model = regularized_model(regularizer)
    teacher, rng = regularizer.teacher.network, np.random.default_rng(5)
    teacher.set_weights([rng.normal(size=weight.shape) for weight in teacher.weights])
    regularizer.teacher.step.assign(3)
    before, weights = read_numbers(teacher), read_weights(model)
    share = min(decay, 3 / 4)
    v, w = (share * old + (1 - share) * new for old, new in zip(before, weights, strict=True))
    q = softmax(TARGET @ v @ w)
    assert 0 < np.sum(q.max(axis=1) > 0.6) < len(q)
    check_regularizer(model, mode, lambda a, b: compute_loss(softmax(TARGET @ a @ b), q, 0.6, 0.4))
    assert_all_close(read_numbers(teacher), [v, w], rtol=1e-5)
    assert int(regularizer.teacher.step) == 4


def test_teacher_averages_moving_statistics():
    backbone = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
    regularizer = SelfEnsembling()
    model = DANN(backbone, num_classes=3, regularizers=[regularizer])
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
    regularizer = SelfEnsembling(WEIGHT, threshold=0.0)
    model = regularized_model(regularizer, augmentation=doubled)
    a, b = read_weights(model)
    loss = compute_loss(softmax(2 * TARGET @ a @ b), softmax(TARGET @ a @ b), 0.0)
    logs, _ = step(model, "graph")
    assert loss > 1e-3
    assert logs["self_ensembling/loss"] == pytest.approx(loss, rel=1e-4)
