"""WDGRL's loss and gradients, against NumPy on a linear backbone and a critic of one layer."""

import keras
import numpy as np
import pytest
from support.arrays import SOURCE, STRENGTH, TARGET
from support.closed_forms import central_differences
from support.networks import linear_model, read_weights
from support.training_step import MODES, check_step, label_loss, step

from dann.adaptation import WDGRL

PENALTY = 3.0


def tanh_critic():
    """d(h) = tanh(h U) v, without biases, whose slope is U (v * (1 - tanh^2))."""
    entry = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="tanh", use_bias=False)(entry)
    return keras.Model(entry, keras.layers.Dense(1, use_bias=False)(hidden), name="critic")


def wdgrl(critic_steps=1, **kwargs):
    settings = {"critic_steps": critic_steps, "gradient_penalty": PENALTY, **kwargs}
    return linear_model(WDGRL, domain_head=tanh_critic(), **settings)


def set_shares(monkeypatch, size):
    """Fixes the random points on the lines; XLA draws different ones from the same seed."""
    shares = np.random.default_rng(8).uniform(size=(size, 1)).astype("float32")
    tensor = keras.ops.convert_to_tensor(shares)
    monkeypatch.setattr(keras.random, "uniform", lambda shape, seed: tensor)
    return shares.astype("float64")


def distance(a, u, v, source=SOURCE, target=TARGET):
    return np.mean(np.tanh(source @ a @ u) @ v) - np.mean(np.tanh(target @ a @ u) @ v)


def penalty(a, u, v, shares, source=SOURCE, target=TARGET):
    partners = target[np.arange(len(source)) % len(target)]
    # The backbone is linear, so it maps points between inputs to points between features.
    points = np.concatenate([source, target, (1 - shares) * source + shares * partners]) @ a
    slopes = (v.T * (1 - np.tanh(points @ u) ** 2)) @ u.T
    return np.mean((np.linalg.norm(slopes, axis=1) - 1) ** 2)


def compute_gradients(weights, shares):
    """Returns the gradients; the penalty has none for the features."""
    a, b, u, v = weights
    label_slopes = central_differences(label_loss, [a, b])
    distance_slopes = central_differences(distance, [a, u, v])
    penalty_slopes = central_differences(lambda u, v: penalty(a, u, v, shares), [u, v])
    return [
        label_slopes[0] + STRENGTH * distance_slopes[0],
        label_slopes[1],
        PENALTY * penalty_slopes[0] - distance_slopes[1],
        PENALTY * penalty_slopes[1] - distance_slopes[2],
    ]


@pytest.mark.parametrize(("critic_steps", "joint_forward"), [(1, True), (1, False), (2, True)])
@pytest.mark.parametrize("mode", MODES)
def test_wdgrl_loss_and_gradients_match_the_formula(mode, critic_steps, joint_forward, monkeypatch):
    """With two critic steps, the backbone and the label head learn in every second step."""
    shares = set_shares(monkeypatch, 5)
    model = wdgrl(critic_steps, joint_forward=joint_forward)
    a, b, u, v = weights = read_weights(model)
    gradients = compute_gradients(weights, shares)
    terms = {"critic/distance": distance(a, u, v), "critic/penalty": penalty(a, u, v, shares)}
    terms["critic/loss"] = PENALTY * terms["critic/penalty"] - terms["critic/distance"]
    total = label_loss(a, b) + terms["critic/loss"]
    for number in range(1, critic_steps + 2):
        learns = number % critic_steps == 0
        expected = gradients if learns else [0 * a, 0 * b, *gradients[2:]]
        check_step(model, mode, terms, expected, total)
        for weight, old in zip(model.trainable_weights, weights, strict=True):
            weight.assign(old)  # undoes the step, whose rate of 1 is too large


@pytest.mark.parametrize("sizes", [(3, 5), (5, 2), (1, 4)])
def test_shorter_target_repeats(sizes, monkeypatch):
    source, target = (np.random.default_rng(9).normal(size=(size, 3)) for size in sizes)
    shares = set_shares(monkeypatch, len(source))
    model = wdgrl()
    a, _, u, v = read_weights(model)
    pair, labels = {"source": source, "target": target}, np.arange(sizes[0]) % 3
    logs, _ = step(model, "graph", pair, labels)
    expected = penalty(a, u, v, shares, source, target)
    assert logs["critic/penalty"] == pytest.approx(expected, rel=1e-5)
    expected = distance(a, u, v, source, target)
    assert logs["critic/distance"] == pytest.approx(expected, rel=1e-5)


def test_constant_critic_has_finite_gradient():
    model = wdgrl()
    for weight in model.domain_head.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    logs, slopes = step(model, "graph")
    assert logs["critic/penalty"] == pytest.approx(1, rel=1e-4)
    assert all(np.isfinite(slope).all() for slope in slopes)
