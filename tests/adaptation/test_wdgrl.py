"""WDGRL's loss and gradients, against NumPy on a linear backbone and a critic of one layer."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import central_differences
from support.formulas import linear_model
from support.networks import read_weights
from support.pair import SOURCE, STRENGTH, TARGET
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


def draw(monkeypatch, size):
    """Sets the places on the lines between the domains; XLA draws others from the same seed."""
    shares = np.random.default_rng(8).uniform(size=(size, 1)).astype("float32")
    drawn = keras.ops.convert_to_tensor(shares)
    monkeypatch.setattr(keras.random, "uniform", lambda shape, seed: drawn)
    return shares.astype("float64")


def distance(a, u, v, source=SOURCE, target=TARGET):
    return np.mean(np.tanh(source @ a @ u) @ v) - np.mean(np.tanh(target @ a @ u) @ v)


def penalty(a, u, v, shares, source=SOURCE, target=TARGET):
    ends = target[np.arange(len(source)) % len(target)]
    # The backbone is linear: a point between the features is that of one between the inputs.
    points = np.concatenate([source, target, (1 - shares) * source + shares * ends]) @ a
    slopes = (v.T * (1 - np.tanh(points @ u) ** 2)) @ u.T
    return np.mean((np.linalg.norm(slopes, axis=1) - 1) ** 2)


def expected(weights, shares):
    """The penalty is the critic's alone: features are constants to it."""
    a, b, u, v = weights
    of_label = central_differences(label_loss, [a, b])
    of_distance = central_differences(distance, [a, u, v])
    of_penalty = central_differences(lambda u, v: penalty(a, u, v, shares), [u, v])
    return [
        of_label[0] + STRENGTH * of_distance[0],
        of_label[1],
        *(PENALTY * of_it - of_w for of_it, of_w in zip(of_penalty, of_distance[1:], strict=True)),
    ]


@pytest.mark.parametrize("joint_forward", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, joint_forward, monkeypatch):
    shares = draw(monkeypatch, 5)
    model = wdgrl(joint_forward=joint_forward)
    a, b, u, v = read_weights(model)
    gradients = expected([a, b, u, v], shares)
    terms = {"critic/distance": distance(a, u, v), "critic/penalty": penalty(a, u, v, shares)}
    terms["critic/loss"] = PENALTY * terms["critic/penalty"] - terms["critic/distance"]
    check_step(model, mode, terms, gradients, label_loss(a, b) + terms["critic/loss"])


@pytest.mark.parametrize("mode", MODES)
def test_the_rest_learns_only_on_every_second_step(mode, monkeypatch):
    shares = draw(monkeypatch, 5)
    model = wdgrl(critic_steps=2)
    for number in range(1, 4):
        weights = read_weights(model)
        gradients = expected(weights, shares)
        if number % 2:
            gradients[:2] = np.zeros((3, 4)), np.zeros((4, 3))
        logs, slopes = step(model, mode)
        assert logs["label/loss"] == pytest.approx(label_loss(*weights[:2]), rel=1e-4)
        assert_all_close(slopes, gradients, rtol=1e-3, atol=1e-5)
        for weight, old in zip(model.trainable_weights, weights, strict=True):
            weight.assign(old)  # a step at learning rate 1 leads anywhere


@pytest.mark.parametrize("sizes", [(3, 5), (5, 2), (1, 4)])
def test_a_target_that_is_shorter_than_the_source_repeats(sizes, monkeypatch):
    source, target = (np.random.default_rng(9).normal(size=(size, 3)) for size in sizes)
    shares = draw(monkeypatch, len(source))
    model = wdgrl()
    a, _, u, v = read_weights(model)
    pair, labels = {"source": source, "target": target}, np.arange(sizes[0]) % 3
    logs, _ = step(model, "graph", pair, labels)
    wanted = penalty(a, u, v, shares, source, target)
    assert logs["critic/penalty"] == pytest.approx(wanted, rel=1e-5)
    wanted = distance(a, u, v, source, target)
    assert logs["critic/distance"] == pytest.approx(wanted, rel=1e-5)


def test_a_critic_without_slope_has_a_finite_gradient():
    model = wdgrl()
    for weight in model.domain_head.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    logs, slopes = step(model, "graph")
    assert logs["critic/penalty"] == pytest.approx(1, rel=1e-4)
    assert all(np.isfinite(slope).all() for slope in slopes)
