"""Diagnostics in a real training."""

import csv

import keras
import numpy as np
import pytest
from support.networks import network

from dann.adaptation import DANN, SourceOnly
from dann.diagnostics import Diagnostics, gradient_conflict

RNG = np.random.default_rng(0)
X = {name: RNG.normal(size=(24, 3)).astype("float32") for name in ("source", "target")}
Y = np.arange(24) % 2
BATCH = ({name: part[:8] for name, part in X.items()}, Y[:8])


def trained(callbacks):
    """A DANN with dropout and momentum, from the same start on the same batches; its history."""
    keras.utils.set_random_seed(1)
    backbone = network((3, 4), "backbone", "tanh")
    dropped = keras.layers.Dropout(0.3, seed=2)(backbone.output)
    model = DANN(keras.Model(backbone.input, dropped), num_classes=2)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), metrics=["accuracy"], jit_compile=False)
    return model, model.fit(
        X, Y, batch_size=8, callbacks=callbacks, shuffle=False, verbose=0
    ).history


def test_numbers_enter_the_logs_and_training_is_the_same_as_without(tmp_path):
    everything = Diagnostics(("certify", "label_loss_baselines", "gradient_conflict"), BATCH)
    logger = keras.callbacks.CSVLogger(tmp_path / "metrics.csv")
    model, history = trained([everything, logger])
    alone, plain = trained([Diagnostics([], BATCH)])  # which measures nothing
    assert not any(name.startswith("diagnostics/") for name in plain)
    assert {name: history[name] for name in plain} == plain
    for mine, other in zip(model.variables, alone.variables, strict=True):
        np.testing.assert_array_equal(np.array(mine), np.array(other))
    with (tmp_path / "metrics.csv").open() as file:
        (row,) = csv.DictReader(file)
    true = gradient_conflict(alone, BATCH)
    for name in ("conflict/cosine", "conflict/ratio"):
        assert history[f"diagnostics/{name}"] == [pytest.approx(true[name], rel=1e-4)]
        assert float(row[f"diagnostics/{name}"]) == pytest.approx(true[name], rel=1e-4)
    assert float(row["diagnostics/reversal/cosine"]) == pytest.approx(-1, abs=1e-5)


def test_what_cannot_be_measured_once_the_training_diverges_is_nan():
    model = SourceOnly(network((3, 2), "backbone"), num_classes=2)
    model.compile(keras.optimizers.SGD(1e30), jit_compile=False)
    callback = Diagnostics(("jacobians", "sharpness"), BATCH)
    with pytest.warns(UserWarning, match="is NaN") as told:
        history = model.fit(X, Y, batch_size=4, callbacks=[callback], verbose=0).history
    assert len(told) == 2
    for name in ("jacobian/source/logits/top", "rank/target/rank_share", "sharpness/trace"):
        assert np.isnan(history[f"diagnostics/{name}"]).all()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((["gain"], BATCH), ValueError),
        (("minmax_spectrum", BATCH), ValueError),
        ((["discriminator_vs_probe"],), ValueError),
        ((["gradient_conflict"], BATCH), ValueError),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_step(arguments, error):
    model = SourceOnly(network((3, 4), "backbone"), num_classes=2)
    model.compile("sgd")
    with pytest.raises(error):
        model.fit(X, Y, callbacks=[Diagnostics(*arguments)], verbose=0)
    assert int(model.optimizer.iterations) == 0
