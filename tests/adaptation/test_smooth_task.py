"""The gradient at weights moved up the label loss, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.arrays import ALL_INPUTS, LABELS, PAIR, STRENGTH, assert_all_close
from support.closed_forms import ascend_loss, binary_losses, central_differences, softmax
from support.networks import linear, linear_dann, linear_model, read_weights
from support.training_step import MODES, check_step, label_loss, step

from dann.adaptation import CDAN, DANN, VirtualAdversarial
from dann.schedules import GaninSchedule

RADIUS = 0.3
MODELS = {
    "joint": lambda: linear_dann(task_radius=RADIUS),
    "separate": lambda: linear_dann(task_radius=RADIUS, joint_forward=False),
    "sdat": lambda: linear_model(CDAN, task_radius=1.0, domain_head=linear(12, 1)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mode", MODES)
def test_gradient_is_taken_at_moved_weights(mode, name):
    model = MODELS[name]()
    a, b, w = read_weights(model)
    a, b = ascend_loss(label_loss, [a, b], model.task_radius)
    predictions = softmax(ALL_INPUTS @ a @ b)  # constants of the gradient

    def domain_loss(a, w):
        features = ALL_INPUTS @ a
        if name == "sdat":
            features = (features[:, :, None] * predictions[:, None, :]).reshape(10, 12)
        return np.mean(binary_losses((features @ w)[:, 0], np.repeat([0, 1], 5)))

    label_slopes = central_differences(label_loss, [a, b])
    domain_slopes = central_differences(domain_loss, [a, w])
    feature_slope = label_slopes[0] - STRENGTH * domain_slopes[0]
    gradients = [feature_slope, label_slopes[1], domain_slopes[1]]
    terms = {"label/loss": label_loss(a, b), "domain/loss": domain_loss(a, w)}
    check_step(model, mode, terms, gradients, atol=2e-6 if name == "sdat" else 1e-6)


def noisy_model(radius):
    """Returns a model with dropout, noise, statistics, a schedule and a regularizer."""
    layers = keras.layers.Dense(8), keras.layers.BatchNormalization()
    return DANN(
        keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dropout(0.3, seed=1)]),
        num_classes=3,
        strength=GaninSchedule(5),
        augmentation={"source": keras.layers.GaussianNoise(0.5, seed=2)},
        regularizers=[VirtualAdversarial(1.0, radius=0.1, seed=3)],
        task_radius=radius,
    )


def train(model, mode, rate):
    model.compile(keras.optimizers.SGD(rate), metrics=["accuracy"], jit_compile=mode == "xla")
    pair, labels = {name: np.tile(part, (3, 1)) for name, part in PAIR.items()}, np.tile(LABELS, 3)
    return model.fit(pair, labels, batch_size=5, shuffle=False, verbose=0).history


def test_step_changes_state_like_one_pass():
    smooth, plain = noisy_model(0.5), noisy_model(0.0)
    plain.set_weights(smooth.get_weights())
    logs, plain_logs = train(smooth, "graph", 0.0), train(plain, "graph", 0.0)
    assert int(smooth.reversal.step) == 3
    assert_all_close(smooth.non_trainable_variables, plain.non_trainable_variables, rtol=1e-5)
    assert logs["strength"] == plain_logs["strength"]
    assert logs["accuracy"] == plain_logs["accuracy"]  # at the unmoved weights
    assert logs["label/loss"][0] > plain_logs["label/loss"][0]  # at the moved weights


@pytest.mark.parametrize("mode", MODES[1:])
def test_both_passes_draw_the_same_noise(mode):
    """A tiny radius gives the same steps as no radius, although layers are random."""
    smooth, plain = noisy_model(1e-7), noisy_model(0.0)
    plain.set_weights(smooth.get_weights())
    plain(PAIR, training=True)  # the first pass of a smooth step draws first
    plain.set_weights(smooth.get_weights())
    train(smooth, mode, 0.01)
    train(plain, mode, 0.01)
    assert_all_close(read_weights(smooth), read_weights(plain), rtol=1e-3, atol=2e-5)


def test_label_loss_of_zero_moves_no_weight():
    logs, slopes = step(linear_dann(task_radius=RADIUS), "graph", sample_weight=np.zeros(5))
    assert logs["label/loss"] == 0
    assert np.isfinite(slopes[0]).all()
    assert np.abs(slopes[0]).max() > 0  # from the domain loss
