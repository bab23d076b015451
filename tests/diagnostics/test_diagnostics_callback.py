"""The callback in a training run."""

import csv

import keras
import numpy as np
import pytest
from support.networks import network

from dann.adaptation import DANN
from dann.diagnostics import Diagnostics, gradient_conflict

RNG = np.random.default_rng(0)
X = {name: RNG.normal(size=(24, 3)).astype("float32") for name in ("source", "target")}
Y = np.arange(24) % 2
BATCH = ({name: part[:8] for name, part in X.items()}, Y[:8])


def train(callbacks):
    """Trains a DANN with dropout and momentum, always with the same seeds and batches."""
    keras.utils.set_random_seed(1)
    backbone = network((3, 4), "backbone", "tanh")
    dropped = keras.layers.Dropout(0.3, seed=2)(backbone.output)
    model = DANN(keras.Model(backbone.input, dropped), num_classes=2)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), metrics=["accuracy"], jit_compile=False)
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    return model, model.fit(X, Y, callbacks=callbacks, **options).history


def test_numbers_are_logged_and_the_training_is_unchanged(tmp_path):
    diagnostics = Diagnostics(("certify", "label_loss_baselines", "gradient_conflict"), BATCH)
    logger = keras.callbacks.CSVLogger(tmp_path / "metrics.csv")
    model, history = train([diagnostics, logger])
    plain_model, plain_history = train([])
    assert {name: history[name] for name in plain_history} == plain_history
    for weight, plain_weight in zip(model.variables, plain_model.variables, strict=True):
        np.testing.assert_array_equal(np.array(weight), np.array(plain_weight))
    with (tmp_path / "metrics.csv").open() as file:
        (row,) = csv.DictReader(file)
    expected = gradient_conflict(plain_model, BATCH)
    for name in ("conflict/cosine", "conflict/ratio"):
        assert history[f"diagnostics/{name}"] == [pytest.approx(expected[name], rel=1e-4)]
        assert float(row[f"diagnostics/{name}"]) == pytest.approx(expected[name], rel=1e-4)
    assert float(row["diagnostics/reversal/cosine"]) == pytest.approx(-1, abs=1e-5)
