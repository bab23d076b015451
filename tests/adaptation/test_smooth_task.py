"""The gradient at weights moved up the label loss, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import central_differences, cross_entropy, softmax
from support.networks import linear, linear_parts, weights_of, with_random_weights
from support.one_step import MODES, check_step, step
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET

from dann.adaptation import CDAN, DANN, MCC, Regularizer, VirtualAdversarial
from dann.schedules import GaninSchedule

RADIUS, WEIGHT, TEMPERATURE = 0.3, 1.7, 2.5
INPUTS = np.concatenate([SOURCE, TARGET])


def smooth_dann(radius=RADIUS, **kwargs):
    """f = x A, c = f B, d = f w, without biases."""
    arguments = {"domain_head": linear(4, 1, "domain_head"), "strength": STRENGTH, **kwargs}
    return with_random_weights(DANN(**linear_parts(), task_radius=radius, **arguments))


def label_loss(a, b):
    return cross_entropy(SOURCE @ a @ b, LABELS)


def domain_losses(scores):
    """Binary cross-entropy of each example, the source's first."""
    return np.log1p(np.exp(np.repeat([1, -1], 5) * scores))


def domain_loss(a, w):
    return np.mean(domain_losses((INPUTS @ a @ w)[:, 0]))


def moved(a, b, radius=RADIUS):
    slopes = central_differences(label_loss, [a, b])
    length = np.sqrt(sum((slope**2).sum() for slope in slopes))
    return [w + radius * slope / length for w, slope in zip((a, b), slopes, strict=True)]


@pytest.mark.parametrize("passes", ["joint", "separate"])
@pytest.mark.parametrize("mode", MODES)
def test_the_step_is_the_gradient_at_the_moved_weights(mode, passes):
    model = smooth_dann(passes=passes)
    a, b, w = weights_of(model)
    start = a.copy()
    a, b = moved(a, b)
    assert np.abs(a - start).max() > 0.01
    of_label, of_domain = (
        central_differences(label_loss, [a, b]),
        central_differences(domain_loss, [a, w]),
    )
    gradients = [of_label[0] - STRENGTH * of_domain[0], of_label[1], of_domain[1]]
    terms = {"label/loss": label_loss(a, b), "domain/loss": domain_loss(a, w)}
    check_step(model, mode, terms, gradients)


def test_evaluation_does_not_move_the_weights():
    model = smooth_dann()
    a, b, _ = weights_of(model)
    model.compile(keras.optimizers.SGD(1.0))
    logs = model.evaluate(PAIR, LABELS, batch_size=5, verbose=0, return_dict=True)
    assert logs["label/loss"] == pytest.approx(label_loss(a, b), rel=1e-5)


@keras.saving.register_keras_serializable("tests")
class SquaredHead(Regularizer):
    """The sum of squares of the label head's weights, which it reads itself."""

    name = "squared_head"
    needs_target_logits = False

    def loss(self, model, x, outputs):
        return sum(keras.ops.sum(keras.ops.square(w)) for w in model.label_head.weights)


@pytest.mark.parametrize("mode", MODES)
def test_a_regularizer_is_taken_at_the_moved_weights_too(mode):
    model, plain = smooth_dann(regularizers=[SquaredHead(2.0)]), smooth_dann()
    _, b = moved(*weights_of(model)[:2])
    logs, slopes = step(model, mode)
    _, without = step(plain, mode)
    assert logs["squared_head/loss"] == pytest.approx((b**2).sum(), rel=1e-5)
    np.testing.assert_allclose(slopes[1] - without[1], 4 * b, rtol=1e-4, atol=1e-5)


def noisy_model(radius):
    """Everything that has a state: two kinds of noise, statistics, a schedule, a regularizer."""
    entry = keras.Input((3,))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(8)(entry))
    return DANN(
        keras.Model(entry, keras.layers.Dropout(0.3, seed=1)(hidden)),
        num_classes=3,
        strength=GaninSchedule(5),
        augmentation={"source": keras.layers.GaussianNoise(0.5, seed=2)},
        regularizers=[VirtualAdversarial(1.0, radius=0.1, seed=3)],
        task_radius=radius,
    )


def train(model, mode, rate):
    model.compile(
        keras.optimizers.SGD(rate),
        metrics=["accuracy"],
        jit_compile=mode == "xla",
        run_eagerly=mode == "eager",
    )
    pair, labels = {name: np.tile(part, (3, 1)) for name, part in PAIR.items()}, np.tile(LABELS, 3)
    return model.fit(pair, labels, batch_size=5, shuffle=False, verbose=0).history


def test_a_step_leaves_the_state_that_one_pass_leaves():
    smooth, plain = noisy_model(0.5), noisy_model(0.0)
    plain.set_weights(smooth.get_weights())
    logs, plain_logs = train(smooth, "graph", 0.0), train(plain, "graph", 0.0)
    assert int(smooth.reversal.step) == 3
    assert_all_close(
        smooth.non_trainable_variables, plain.non_trainable_variables, rtol=1e-5, atol=1e-6
    )
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
    assert_all_close(weights_of(smooth), weights_of(plain), rtol=1e-3, atol=2e-5)


@pytest.mark.tensorflow
@pytest.mark.parametrize("policy", ["mixed_float16", "bfloat16"])
def test_it_trains_in_half_precision(policy):
    """The heads of `dann.networks` keep weights of single precision, whatever the policy."""
    keras.config.set_dtype_policy(policy)
    model = noisy_model(0.05)
    before = weights_of(model)
    assert np.isfinite(train(model, "graph", 0.01)["loss"]).all()
    moved = [np.abs(new - old).max() for new, old in zip(weights_of(model), before, strict=True)]
    assert max(moved) > 0


def test_a_label_loss_of_zero_moves_nothing():
    logs, slopes = step(smooth_dann(), "graph", sample_weight=np.zeros(5))
    assert logs["label/loss"] == 0
    assert np.isfinite(slopes[0]).all()
    assert np.abs(slopes[0]).max() > 0  # the domain loss's


def certainty(predictions):
    """1 + exp(-H) = 1 + prod p^p, with mean 1."""
    weights = 1 + np.prod(predictions**predictions, axis=1)
    return weights / weights.mean()


def class_confusion(logits, weights):
    """MCC's loss of logits at its temperature, with constant weights."""
    p = softmax(logits)
    shared = (p.T * weights) @ p
    shares = shared / shared.sum(axis=1, keepdims=True)
    return (shares.sum() - np.trace(shares)) / len(shares)


@pytest.mark.parametrize("mode", MODES)
def test_cdan_e_with_mcc_and_a_smooth_task_is_the_sum_of_its_parts_at_the_moved_weights(mode):
    model = with_random_weights(
        CDAN(
            **linear_parts(),
            domain_head=linear(12, 1, "domain_head"),
            strength=STRENGTH,
            entropy_conditioning=True,
            regularizers=[MCC(WEIGHT, TEMPERATURE)],
            task_radius=1.0,
        )
    )
    a, b, w = weights_of(model)
    a, b = moved(a, b, 1.0)
    # Constants to the gradient: predictions, and the weights of the examples in both terms.
    predictions = softmax(INPUTS @ a @ b)
    of_domain = np.concatenate([certainty(part) for part in np.split(predictions, 2)])
    of_target = certainty(softmax(TARGET @ a @ b / TEMPERATURE))

    def conditioned_loss(a, w):
        products = (INPUTS @ a)[:, :, None] * predictions[:, None, :]
        return np.mean(of_domain * domain_losses((products.reshape(10, 12) @ w)[:, 0]))

    def confusion(a, b):
        return class_confusion(TARGET @ a @ b / TEMPERATURE, of_target)

    terms = {
        "label/loss": label_loss(a, b),
        "domain/loss": conditioned_loss(a, w),
        "mcc/loss": confusion(a, b),
    }
    (label_a, label_b), (domain_a, domain_w), (mcc_a, mcc_b) = (
        central_differences(function, arrays)
        for function, arrays in (
            (label_loss, [a, b]),
            (conditioned_loss, [a, w]),
            (confusion, [a, b]),
        )
    )
    gradients = [label_a - STRENGTH * domain_a + WEIGHT * mcc_a, label_b + WEIGHT * mcc_b, domain_w]
    total = terms["label/loss"] + terms["domain/loss"] + WEIGHT * terms["mcc/loss"]
    check_step(model, mode, terms, gradients, total, atol=2e-6)
    assert all(np.isfinite(weight).all() for weight in weights_of(model))
