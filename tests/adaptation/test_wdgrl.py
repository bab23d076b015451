"""WDGRL's loss and gradients, against NumPy on a linear backbone and a critic of one layer."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import central_differences, cross_entropy
from support.networks import linear_parts, weights_of, with_random_weights
from support.one_step import MODES, check_step, step
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET

from dann.adaptation import WDGRL

PENALTY = 3.0


def tanh_critic():
    """d(h) = tanh(h U) v, without biases, whose slope is U (v * (1 - tanh^2))."""
    entry = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="tanh", use_bias=False)(entry)
    return keras.Model(entry, keras.layers.Dense(1, use_bias=False)(hidden), name="critic")


def wdgrl(critic_steps=1, gradient_penalty=PENALTY, **kwargs):
    arguments = {"domain_head": tanh_critic(), "strength": STRENGTH, "seed": 6, **kwargs}
    model = WDGRL(
        **linear_parts(),
        critic_steps=critic_steps,
        gradient_penalty=gradient_penalty,
        **arguments,
    )
    return with_random_weights(model)


@pytest.fixture
def shares(monkeypatch):
    """Places on the lines between the domains; XLA draws other numbers from the same seed."""
    shares = np.random.default_rng(8).uniform(size=(5, 1)).astype("float32")
    drawn = keras.ops.convert_to_tensor(shares)
    monkeypatch.setattr(keras.random, "uniform", lambda shape, seed: drawn)
    return shares.astype("float64")


def next_numbers(model):
    """What the model draws next, without drawing it."""
    generator = keras.random.SeedGenerator(0)
    generator.state.assign(model.generator.state)
    return keras.ops.convert_to_numpy(keras.random.uniform((5, 1), seed=generator))


def label_loss(a, b):
    return cross_entropy(SOURCE @ a @ b, LABELS)


def distance(a, u, v):
    return np.mean(np.tanh(SOURCE @ a @ u) @ v) - np.mean(np.tanh(TARGET @ a @ u) @ v)


def penalty(a, u, v, shares):
    source, target = SOURCE @ a, TARGET @ a
    points = np.concatenate([source, target, (1 - shares) * source + shares * target])
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


@pytest.mark.parametrize("passes", ["joint", "separate"])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, passes, shares):
    model = wdgrl(passes=passes)
    a, b, u, v = weights_of(model)
    gradients = expected([a, b, u, v], shares)
    terms = {
        "critic/distance": distance(a, u, v),
        "critic/penalty": penalty(a, u, v, shares),
    }
    terms["critic/loss"] = PENALTY * terms["critic/penalty"] - terms["critic/distance"]
    check_step(model, mode, terms, gradients, label_loss(a, b) + terms["critic/loss"])


@pytest.mark.parametrize("mode", MODES)
def test_the_rest_learns_only_on_every_second_step(mode, shares):
    model = wdgrl(critic_steps=2)
    for number in range(1, 5):
        weights = weights_of(model)
        gradients = expected(weights, shares)
        if number % 2:
            gradients[:2] = np.zeros((3, 4)), np.zeros((4, 3))
        logs, slopes = step(model, mode)
        assert logs["label/loss"] == pytest.approx(label_loss(*weights[:2]), rel=1e-4)
        assert_all_close(slopes, gradients, rtol=1e-3, atol=1e-5)
        for weight, old in zip(model.trainable_weights, weights, strict=True):
            weight.assign(old)  # a step at learning rate 1 leads anywhere


def test_the_count_of_critic_steps_and_the_noise_go_on_after_loading(reloaded):
    model = wdgrl(critic_steps=3)
    model.compile(keras.optimizers.SGD(0.0))
    for _ in range(2):
        model.train_on_batch(PAIR, LABELS)
    again = reloaded(model)
    assert (again.critic_steps, again.gradient_penalty, again.seed) == (3, PENALTY, 6)
    np.testing.assert_array_equal(next_numbers(model), next_numbers(again))
    _, slopes = step(again, "graph")
    assert np.abs(slopes[0]).max() > 0  # the third step


@pytest.mark.parametrize(
    ("mode", "sizes"),
    [
        ("graph", (3, 5)),
        ("eager", (5, 2)),
        ("graph", (1, 4)),
    ],
)
def test_a_target_that_is_shorter_than_the_source_repeats(mode, sizes, monkeypatch):
    rng = np.random.default_rng(9)
    source, target = (rng.normal(size=(size, 3)) for size in sizes)
    drawn = rng.uniform(size=(sizes[0], 1))
    shares = keras.ops.convert_to_tensor(drawn, "float32")
    monkeypatch.setattr(keras.random, "uniform", lambda shape, seed: shares)
    model = wdgrl()
    a, _, u, v = weights_of(model)
    ends = np.stack([target[index % sizes[1]] for index in range(sizes[0])])
    # The backbone is linear: a point between the features is that of one between the inputs.
    points = np.concatenate([source, target, (1 - drawn) * source + drawn * ends]) @ a
    lengths = np.linalg.norm((v.T * (1 - np.tanh(points @ u) ** 2)) @ u.T, axis=1)
    pair, labels = {"source": source, "target": target}, np.arange(sizes[0]) % 3
    logs, _ = step(model, mode, pair, labels)
    assert logs["critic/penalty"] == pytest.approx(np.mean((lengths - 1) ** 2), rel=1e-5)
    wanted = np.mean(np.tanh(source @ a @ u) @ v) - np.mean(np.tanh(target @ a @ u) @ v)
    assert logs["critic/distance"] == pytest.approx(wanted, rel=1e-5)


def test_a_critic_without_slope_has_a_finite_gradient():
    model = wdgrl()
    for weight in model.domain_head.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    logs, slopes = step(model, "graph")
    assert logs["critic/penalty"] == pytest.approx(1, rel=1e-4)
    assert all(np.isfinite(slope).all() for slope in slopes)
