"""The gradient at weights moved up the label loss, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import central_differences, softmax
from support.formulas import (
    ascend_loss,
    binary_losses,
    certainty_weights,
    confusion,
    linear_dann,
    linear_model,
)
from support.networks import linear, read_weights
from support.pair import ALL_INPUTS, LABELS, PAIR, STRENGTH, TARGET
from support.training_step import MODES, check_step, label_loss, step

from dann.adaptation import CDAN, DANN, MCC, VirtualAdversarial
from dann.schedules import GaninSchedule

RADIUS, WEIGHT, TEMPERATURE = 0.3, 1.7, 2.5
DOMAIN = np.repeat([0, 1], 5)


def domain_loss(a, w):
    return np.mean(binary_losses((ALL_INPUTS @ a @ w)[:, 0], DOMAIN))


@pytest.mark.parametrize("joint_forward", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_the_step_is_the_gradient_at_the_moved_weights(mode, joint_forward):
    model = linear_dann(task_radius=RADIUS, joint_forward=joint_forward)
    a, b, w = read_weights(model)
    a, b = ascend_loss(label_loss, [a, b], RADIUS)
    of_label = central_differences(label_loss, [a, b])
    of_domain = central_differences(domain_loss, [a, w])
    gradients = [of_label[0] - STRENGTH * of_domain[0], of_label[1], of_domain[1]]
    terms = {"label/loss": label_loss(a, b), "domain/loss": domain_loss(a, w)}
    check_step(model, mode, terms, gradients)


def test_evaluation_does_not_move_the_weights():
    model = linear_dann(task_radius=RADIUS)
    a, b, _ = read_weights(model)
    model.compile(keras.optimizers.SGD(1.0))
    logs = model.evaluate(PAIR, LABELS, batch_size=5, verbose=0, return_dict=True)
    assert logs["label/loss"] == pytest.approx(label_loss(a, b), rel=1e-5)


def noisy_model(radius):
    """Everything that has a state: two kinds of noise, statistics, a schedule, a regularizer."""
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


def test_a_step_leaves_the_state_that_one_pass_leaves():
    smooth, plain = noisy_model(0.5), noisy_model(0.0)
    plain.set_weights(smooth.get_weights())
    logs, plain_logs = train(smooth, "graph", 0.0), train(plain, "graph", 0.0)
    assert int(smooth.reversal.step) == 3
    assert_all_close(smooth.non_trainable_variables, plain.non_trainable_variables, rtol=1e-5)
    assert logs["strength"] == plain_logs["strength"]
    assert logs["accuracy"] == plain_logs["accuracy"]  # of the weights as they are
    assert logs["label/loss"][0] > plain_logs["label/loss"][0]  # of the moved ones


@pytest.mark.parametrize("mode", MODES[1:])
def test_with_a_tiny_radius_the_passes_draw_the_same_noise(mode):
    """A radius too small to matter gives the steps of the method itself, whatever is random."""
    smooth, plain = noisy_model(1e-7), noisy_model(0.0)
    plain.set_weights(smooth.get_weights())
    plain(PAIR, training=True)  # a smooth step's own pass draws first
    plain.set_weights(smooth.get_weights())
    train(smooth, mode, 0.01)
    train(plain, mode, 0.01)
    assert_all_close(read_weights(smooth), read_weights(plain), rtol=1e-3, atol=2e-5)


@pytest.mark.tensorflow
@pytest.mark.parametrize("policy", ["mixed_float16", "bfloat16"])
def test_it_trains_in_half_precision(policy):
    """The heads of `dann.networks` keep weights of single precision, whatever the policy."""
    keras.config.set_dtype_policy(policy)
    model = noisy_model(0.05)
    before = read_weights(model)
    assert np.isfinite(train(model, "graph", 0.01)["loss"]).all()
    assert any((new != old).any() for new, old in zip(read_weights(model), before, strict=True))


def test_a_label_loss_of_zero_moves_nothing():
    logs, slopes = step(linear_dann(task_radius=RADIUS), "graph", sample_weight=np.zeros(5))
    assert logs["label/loss"] == 0
    assert np.isfinite(slopes[0]).all()
    assert np.abs(slopes[0]).max() > 0  # the domain loss's


@pytest.mark.parametrize("mode", MODES)
def test_cdan_e_with_mcc_and_a_smooth_task_is_the_sum_of_its_parts_at_the_moved_weights(mode):
    settings = {"entropy_conditioning": True, "task_radius": 1.0, "domain_head": linear(12, 1)}
    model = linear_model(CDAN, regularizers=[MCC(WEIGHT, TEMPERATURE)], **settings)
    a, b, w = read_weights(model)
    a, b = ascend_loss(label_loss, [a, b], 1.0)
    # Constants to the gradient: predictions, and the weights of the examples in both terms.
    predictions = softmax(ALL_INPUTS @ a @ b)
    of_domain = np.concatenate([certainty_weights(part) for part in np.split(predictions, 2)])
    of_target = certainty_weights(softmax(TARGET @ a @ b / TEMPERATURE))

    def conditioned(a, w):
        products = (ALL_INPUTS @ a)[:, :, None] * predictions[:, None, :]
        return np.mean(of_domain * binary_losses((products.reshape(10, 12) @ w)[:, 0], DOMAIN))

    def confused(a, b):
        return confusion(softmax(TARGET @ a @ b / TEMPERATURE), of_target)

    def total(a, b, w, sign):
        return label_loss(a, b) + sign * conditioned(a, w) + WEIGHT * confused(a, b)

    terms = {"label/loss": label_loss(a, b), "domain/loss": conditioned(a, w)}
    terms["mcc/loss"] = confused(a, b)
    gradients = central_differences(lambda *ws: total(*ws, 1), [a, b, w])
    (gradients[0],) = central_differences(lambda a: total(a, b, w, -STRENGTH), [a])
    check_step(model, mode, terms, gradients, total(a, b, w, 1), atol=2e-6)
