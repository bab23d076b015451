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

from dann.adaptation import DANN, AdversarialModel, SelfEnsembling

WEIGHT = 1.7


def numbers(network):
    return [keras.ops.convert_to_numpy(weight) for weight in network.weights]


def loss_of(p, q, threshold, balance=0.005):
    sure = q.max(axis=1) > threshold
    m, y = p.mean(axis=0), 1 / p.shape[1]
    entropies = -y * np.log(m) - (1 - y) * np.log(1 - m)
    return np.mean(sure * np.mean((p - q) ** 2, axis=1)) + balance * sure.mean() * entropies.sum()


@pytest.mark.parametrize("decay", [0.4, 0.95])  # below and above 3 / 4, the share of step 3
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, decay):
    regularizer = SelfEnsembling(WEIGHT, threshold=0.6, decay=decay, balance=0.4)
    model = regularized_model(regularizer)
    teacher, rng = regularizer.teacher.network, np.random.default_rng(5)
    teacher.set_weights([rng.normal(size=weight.shape) for weight in teacher.weights])
    regularizer.teacher.step.assign(3)
    before, now = numbers(teacher), read_weights(model)
    kept = min(decay, 3 / 4)
    v, w = (kept * old + (1 - kept) * new for old, new in zip(before, now, strict=True))
    q = softmax(TARGET @ v @ w)
    assert 0 < np.sum(q.max(axis=1) > 0.6) < len(q)
    check_regularizer(model, mode, lambda a, b: loss_of(softmax(TARGET @ a @ b), q, 0.6, 0.4))
    assert_all_close(numbers(teacher), [v, w], rtol=1e-5)
    assert int(regularizer.teacher.step) == 4


def test_moving_statistics_go_into_the_teacher_too():
    backbone = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
    regularizer = SelfEnsembling()
    model = DANN(backbone, num_classes=3, regularizers=[regularizer])
    model.compile("sgd")
    model.fit(PAIR, LABELS, batch_size=5, verbose=0)
    mean = keras.ops.convert_to_numpy(backbone.layers[0].moving_mean)
    model.fit(PAIR, LABELS, batch_size=5, verbose=0)
    of_teacher = regularizer.teacher.network.weights[2]
    assert of_teacher.name == "moving_mean"
    # The average of the first step's, which is 0, and of the second's.
    assert_all_close(keras.ops.convert_to_numpy(of_teacher), mean / 2)


def test_the_teacher_sees_the_images_as_they_are():
    doubled = {"target": [keras.layers.Rescaling(2.0)]}
    regularizer = SelfEnsembling(WEIGHT, threshold=0.0)
    model = regularized_model(regularizer, augmentation=doubled)
    a, b = read_weights(model)
    loss = loss_of(softmax(2 * TARGET @ a @ b), softmax(TARGET @ a @ b), 0.0)
    logs, _ = step(model, "graph")
    assert loss > 1e-3
    assert logs["self_ensembling/loss"] == pytest.approx(loss, rel=1e-4)


def test_the_teacher_computes_in_the_classifiers_precision_and_not_in_the_programs():
    keras.config.set_dtype_policy("mixed_float16")
    exact = [keras.layers.Input((3,)), keras.layers.Dense(2, dtype="float32", use_bias=False)]
    model = AdversarialModel(
        keras.Sequential(exact),
        label_head=keras.Sequential([keras.layers.Dense(3, dtype="float32")]),
        strength=None,
        regularizers=[SelfEnsembling()],
    )
    large = 1e5 + np.arange(6, dtype="float32").reshape(2, 3)  # float16 ends at 65,504
    model.regularizers[0].before_step(model)
    teacher = model.regularizers[0].teacher
    mine = keras.ops.convert_to_numpy(teacher(large))
    its = keras.ops.convert_to_numpy(model.classifier(large))
    np.testing.assert_allclose(mine, its, rtol=1e-5)
