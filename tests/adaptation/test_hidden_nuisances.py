"""`Invariant` removes a nuisance from features that also contain the label."""

import keras
import numpy as np
import pytest

import dann
from dann.diagnostics import leakage
from dann.optimizers import faster_heads

TRAIN, TEST, SEEDS = slice(800), slice(800, 1200), range(5)


def subjects(rng):
    """Returns features with three activities and four subjects."""
    label, subject = rng.integers(0, 3, 1200), rng.integers(0, 4, 1200)
    return rng.normal(size=(3, 20))[label] + rng.normal(size=(4, 20))[subject], label, subject


def ages(rng):
    """Returns features with two classes and an age."""
    age, label = rng.uniform(20, 80, 1200), rng.integers(0, 2, 1200)
    parts = np.column_stack([2 * label - 1, (age - 50) / 15])
    return parts @ rng.normal(size=(2, 20)), label, age


def train(strength, x, label, kind, values, seed):
    """Returns the accuracy and the leakage of the nuisance on held-out examples."""
    keras.utils.set_random_seed(seed)
    backbone = keras.Sequential([keras.Input((20,)), keras.layers.Dense(4)])
    model = dann.Invariant(backbone, 3, nuisances={"nuisance": kind}, strength=strength)
    rate = keras.optimizers.schedules.CosineDecay(1e-3, 80 * 16)
    optimizer = faster_heads(model, keras.optimizers.Adam(rate, beta_1=0.5))
    model.compile(optimizer, metrics=["accuracy"])
    y = {"label": label[TRAIN], "nuisance": values[TRAIN]}
    model.fit(x[TRAIN], y, batch_size=50, epochs=80, verbose=0)
    accuracy = model.evaluate(x[TEST], label[TEST], verbose=0)[1]
    return accuracy, leakage(model, x[TEST], {"nuisance": values[TEST]})["nuisance"]


@pytest.mark.slow
@pytest.mark.parametrize(("make_data", "kind"), [(subjects, 4), (ages, "number")])
def test_nuisance_falls_to_chance_without_accuracy_loss(make_data, kind):
    at_chance = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        x, label, values = make_data(rng)
        x = x + rng.normal(0, 0.5, x.shape)
        runs = [train(strength, x, label, kind, values, seed) for strength in (0.0, 10.0)]
        (plain_accuracy, plain_leakage), (hidden_accuracy, hidden_leakage) = runs
        assert plain_leakage.low > plain_leakage.chance + 0.3
        assert hidden_accuracy > plain_accuracy - 0.02
        at_chance += not hidden_leakage.is_detected
    assert at_chance >= 4  # the interval has a confidence of 95%
