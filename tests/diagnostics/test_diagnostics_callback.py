"""Diagnostics in a real training."""

import csv

import keras
import numpy as np
import pytest
from support.networks import network
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from dann.adaptation import DANN, SourceOnly
from dann.diagnostics import Diagnostics, gradient_conflict

RNG = np.random.default_rng(0)
X = {name: RNG.normal(size=(24, 3)).astype("float32") for name in ("source", "target")}
Y = np.arange(24) % 2
BATCH = ({name: part[:8] for name, part in X.items()}, Y[:8])


def trained(callbacks, epochs=2):
    """A DANN with dropout and momentum, from the same start on the same batches; its history."""
    keras.utils.set_random_seed(1)
    backbone = network((3, 4), "backbone", "tanh")
    dropped = keras.layers.Dropout(0.3, seed=2)(backbone.output)
    model = DANN(keras.Model(backbone.input, dropped), num_classes=2)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), metrics=["accuracy"], jit_compile=False)
    return model, model.fit(
        X, Y, batch_size=8, epochs=epochs, callbacks=callbacks, shuffle=False, verbose=0
    ).history


def length(model, data):
    """Norm of the backbone's weights: cheap, and known without a callback."""
    norms = [np.linalg.norm(np.array(v)) for v in model.backbone.trainable_variables]
    return {"length": float(np.hypot.reduce(norms)), "weights": np.zeros(3)}


def test_numbers_enter_the_logs_and_training_is_the_same_as_without(tmp_path):
    everything = Diagnostics(("certificate", "winning", "bounds", "conflict", "game"), BATCH)
    logger = keras.callbacks.CSVLogger(tmp_path / "metrics.csv")
    model, history = trained([everything, logger], epochs=1)
    alone, plain = trained([], epochs=1)
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
    assert float(row["diagnostics/game/step"]) == pytest.approx(0.1)


def test_between_epochs_it_measures_every_n_steps_and_writes_to_tensorboard(tmp_path):
    steps = {}

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            steps[int(self.model.optimizer.iterations)] = length(self.model, None)["length"]

    callback = Diagnostics({"size": length}, BATCH, every=2, log_dir=str(tmp_path))
    _, history = trained([Watch(), callback])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert events.Tags()["tensors"] == ["diagnostics/length"]  # arrays have no curve
    shown = {
        event.step: float(tensor_util.make_ndarray(event.tensor_proto))
        for event in events.Tensors("diagnostics/length")
    }
    assert list(shown) == [0, 2, 4, 6]
    for step in (2, 4, 6):
        assert shown[step] == pytest.approx(steps[step], rel=1e-6)
    assert history["diagnostics/length"] == [pytest.approx(steps[2]), pytest.approx(steps[6])]


def test_what_cannot_be_measured_once_the_training_diverges_is_nan():
    model = SourceOnly(network((3, 2), "backbone"), num_classes=2)
    model.compile(keras.optimizers.SGD(1e30), jit_compile=False)
    callback = Diagnostics(("jacobians", "sharpness"), BATCH, every=6)
    with pytest.warns(UserWarning, match="is NaN") as told:
        history = model.fit(X, Y, batch_size=4, callbacks=[callback], verbose=0).history
    assert int(model.optimizer.iterations) == 6
    messages = [str(warning.message) for warning in told]
    assert any("'jacobians' is NaN. SVD did not converge" in message for message in messages)
    assert any("'sharpness' is NaN. Second derivatives must" in message for message in messages)
    for name in ("jacobian/source/logits/top", "rank/target/rank_share", "sharpness/trace"):
        assert np.isnan(history[f"diagnostics/{name}"]).all()


def test_what_does_not_fit_is_refused_before_the_first_step():
    with pytest.raises(ValueError, match=r"must be one of 'bounds', .*Received: .*'gain'"):
        Diagnostics(["gain"], BATCH)
    with pytest.raises(ValueError, match="must be one of"):
        Diagnostics("game", BATCH)
    with pytest.raises(ValueError, match="`every`.*at least 1.*every=0"):
        Diagnostics(["game"], BATCH, every=0)
    with pytest.raises(ValueError, match="must be a batch .* to measure on. Received: None"):
        trained([Diagnostics(["game"])])
    model = SourceOnly(network((3, 4), "backbone"), num_classes=2)
    model.compile("sgd")
    with pytest.raises(ValueError, match="A conflict needs two losses"):
        model.fit(X, Y, callbacks=[Diagnostics(["conflict"], BATCH)], verbose=0)
    assert int(model.optimizer.iterations) == 0
