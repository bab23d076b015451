"""The callback in a training, before callbacks that choose by its scores."""

import keras
import numpy as np
import pytest
from checkpoints import SOURCE, TARGET
from support.arrays import assert_all_equal

from dann.adaptation import DANN
from dann.networks import mlp_backbone
from dann.selection import SelectionScores, compute_scores
from dann.selection.outputs import NotFiniteError

NAMES = ("info_max", "mix_val", "source_accuracy")


def train(callbacks, epochs, after_epoch=lambda model: None):
    """Trains a DANN from fixed weights on fixed batches; returns it with its history."""
    keras.utils.set_random_seed(1)
    model = DANN(mlp_backbone((2,), hidden_units=(8,)), num_classes=3)
    model.compile(keras.optimizers.Adam(0.02), metrics=["accuracy"], jit_compile=False)
    after = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: after_epoch(model))
    pair = {"source": SOURCE[0], "target": TARGET}
    settings = {"batch_size": 21, "epochs": epochs, "verbose": 0}
    history = model.fit(pair, SOURCE[1], callbacks=[*callbacks, after], **settings)
    return model, history.history


def scripted_score(*values):
    """Returns a score with one given value per epoch, or `None` for a diverged model."""
    remaining = list(values)

    def score(outputs):
        value = remaining.pop(0)
        if value is None:
            raise NotFiniteError
        return value

    return score


def test_logged_scores_do_not_change_the_training():
    expected, settings = [], {"scores": NAMES, "source": SOURCE, "target": TARGET}
    model, history = train(
        [SelectionScores(**settings)],
        2,
        lambda model: expected.append(compute_scores(model, **settings)),
    )
    for name in NAMES:
        values = [row[name] for row in expected]
        assert history[f"selection/{name}"] == pytest.approx(values, rel=1e-6)
    plain_model, plain_history = train([], 2)
    assert {key: history[key] for key in plain_history} == plain_history
    assert_all_equal(model.get_weights(), plain_model.get_weights())


@pytest.mark.parametrize("start", [0.1, None])
def test_early_stopping_and_checkpoint_follow_the_score(tmp_path, start):
    path, weights = tmp_path / "best.weights.h5", []
    monitor = {"monitor": "selection/scripted", "mode": "max"}
    callbacks = [
        SelectionScores({"scripted": scripted_score(start, 0.5, 0.3, 0.4, 0.9)}, target=TARGET),
        keras.callbacks.ModelCheckpoint(
            path, save_best_only=True, save_weights_only=True, **monitor
        ),
        keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True, **monitor),
    ]
    model, history = train(callbacks, 5, lambda model: weights.append(model.get_weights()))
    first = -np.inf if start is None else start
    assert history["selection/scripted"] == [first, 0.5, 0.3, 0.4]  # it stopped before 0.9
    assert_all_equal(model.get_weights(), weights[1])
    model.load_weights(path)
    assert_all_equal(model.get_weights(), weights[1])
