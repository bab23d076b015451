"""Steps of what other tests see alone: smoothed labels, a smooth task, and CDAN+E + MCC + SDAT."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import central_differences, cross_entropy, softmax
from support.networks import linear, linear_parts, weights_of, with_random_weights
from support.one_step import MODES, step
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET

from dann.adaptation import CDAN, DANN, MCC

RATE, RADIUS, SMOOTHING, WEIGHT, TEMPERATURE = 1e-4, 1.0, 0.4, 1.7, 2.5
INPUTS = np.concatenate([SOURCE, TARGET])


def linear_dann(strength=STRENGTH, **kwargs):
    """f = x A, c = f B, d = f w, without biases."""
    head = linear(4, 1, "domain_head")
    return with_random_weights(
        DANN(**linear_parts(), domain_head=head, strength=strength, **kwargs)
    )


def label_loss(a, b):
    return cross_entropy(SOURCE @ a @ b, LABELS)


def domain_losses(scores, smoothing=0.0):
    """Binary cross-entropy of each example, the source's first."""
    labels = np.repeat([smoothing, 1 - smoothing], 5)
    return labels * np.log1p(np.exp(-scores)) + (1 - labels) * np.log1p(np.exp(scores))


def domain_loss(a, w, smoothing=0.0):
    return np.mean(domain_losses((INPUTS @ a @ w)[:, 0], smoothing))


def moved_up_the_label_loss(a, b):
    slopes = central_differences(label_loss, [a, b])
    length = np.sqrt(sum((slope**2).sum() for slope in slopes))
    return [w + RADIUS * slope / length for w, slope in zip((a, b), slopes, strict=True)]


def after_a_step(model, **kwargs):
    model.compile(keras.optimizers.SGD(RATE))
    model.fit(PAIR, LABELS, batch_size=5, shuffle=False, verbose=0, **kwargs)
    return weights_of(model)


def test_with_smoothed_labels_a_step_raises_the_loss_by_the_features_and_lowers_it_by_the_head():
    """Finite differences along the step that training takes."""
    model = linear_dann(domain_label_smoothing=SMOOTHING)
    a, b, w = weights_of(model)
    of_a, of_w = central_differences(lambda a, w: domain_loss(a, w, SMOOTHING), [a, w])
    # Source labels weigh nothing, so that the features' step is the reversed one alone.
    moved_a, moved_b, moved_w = after_a_step(model, sample_weight=np.zeros(5))
    np.testing.assert_array_equal(moved_b, b)
    start = domain_loss(a, w, SMOOTHING)
    raised, lowered = STRENGTH * RATE * (of_a**2).sum(), RATE * (of_w**2).sum()
    assert domain_loss(moved_a, w, SMOOTHING) - start == pytest.approx(raised, rel=0.02)
    assert domain_loss(a, moved_w, SMOOTHING) - start == pytest.approx(-lowered, rel=0.02)
    assert min(raised, lowered) > 1e-6


def test_with_a_smooth_task_a_step_raises_the_loss_by_the_features_and_lowers_it_by_the_head():
    """Finite differences at the moved weights, whose gradient the step takes."""
    model = linear_dann(task_radius=RADIUS)
    a, b, w = weights_of(model)
    up, _ = moved_up_the_label_loss(a, b)
    of_a, of_w = central_differences(domain_loss, [up, w])
    moved_a, _, moved_w = after_a_step(model)
    # Without strength the features' step is the label's; the move is the same.
    of_label_alone, _, _ = after_a_step(linear_dann(0.0, task_radius=RADIUS))
    start = domain_loss(up, w)
    raised, lowered = STRENGTH * RATE * (of_a**2).sum(), RATE * (of_w**2).sum()
    by_features = domain_loss(up + moved_a - of_label_alone, w) - start
    assert by_features == pytest.approx(raised, rel=0.02)
    assert domain_loss(up, moved_w) - start == pytest.approx(-lowered, rel=0.02)
    assert min(raised, lowered) > 1e-6


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
            task_radius=RADIUS,
        )
    )
    a, b, w = weights_of(model)
    a, b = moved_up_the_label_loss(a, b)
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
    logs, slopes = step(model, mode)
    for name, term in terms.items():
        assert logs[name] == pytest.approx(term, rel=1e-5)
    total = terms["label/loss"] + terms["domain/loss"] + WEIGHT * terms["mcc/loss"]
    assert logs["loss"] == pytest.approx(total, rel=1e-5)
    assert_all_close(slopes, gradients, rtol=1e-4, atol=2e-6)
    assert all(np.isfinite(weight).all() for weight in weights_of(model))
