"""The callback in a real training, before the callbacks that choose by it."""

import keras
import numpy as np
import pytest
from checkpoints import SOURCE, TARGET
from support.arrays import assert_all_equal

from dann.adaptation import DANN
from dann.networks import mlp_backbone
from dann.selection import SelectionScores, compute_scores
from dann.selection.outputs import NotFiniteError

NAMES = ("info_max", "mix_val", "reverse_validation")  # of logits, mixtures and features


def trained(callbacks, epochs, after_epoch=lambda model: None):
    """A DANN that trains from the same start on the same batches; its history."""
    keras.utils.set_random_seed(1)
    model = DANN(mlp_backbone((2,), hidden_units=(8,)), num_classes=3)
    model.compile(keras.optimizers.Adam(0.02), metrics=["accuracy"], jit_compile=False)
    after = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: after_epoch(model))
    pair = {"source": SOURCE[0], "target": TARGET}
    settings = {"batch_size": 21, "epochs": epochs, "verbose": 0}
    history = model.fit(pair, SOURCE[1], callbacks=[*callbacks, after], **settings)
    return model, history.history


def planted(*values):
    """A score with the values that it is given, one an epoch; `None` for a model that diverged."""
    left = list(values)

    def score(outputs):
        value = left.pop(0)
        if value is None:
            raise NotFiniteError
        return value

    return score


def test_scores_of_each_epoch_enter_the_logs_and_do_not_change_the_training():
    expected, given = [], {"scores": NAMES, "source": SOURCE, "target": TARGET}
    model, history = trained(
        [SelectionScores(**given)], 2, lambda model: expected.append(compute_scores(model, **given))
    )
    for name in NAMES:
        values = [row[name] for row in expected]
        assert history[f"selection/{name}"] == pytest.approx(values, rel=1e-6)
    alone, without = trained([], 2)
    assert {key: history[key] for key in without} == without
    assert_all_equal(model.get_weights(), alone.get_weights())


@pytest.mark.parametrize("start", [0.1, None])
def test_stopping_and_checkpoint_follow_the_score_even_if_the_model_diverged_first(tmp_path, start):
    path, kept = tmp_path / "best.weights.h5", []
    monitor = {"monitor": "selection/planted", "mode": "max"}
    callbacks = [
        SelectionScores({"planted": planted(start, 0.5, 0.3, 0.4, 0.9)}, target=TARGET),
        keras.callbacks.ModelCheckpoint(
            path, save_best_only=True, save_weights_only=True, **monitor
        ),
        keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True, **monitor),
    ]
    model, history = trained(callbacks, 5, lambda model: kept.append(model.get_weights()))
    first = -np.inf if start is None else start
    assert history["selection/planted"] == [first, 0.5, 0.3, 0.4]  # it stopped before .9
    assert_all_equal(model.get_weights(), kept[1])
    model.load_weights(path)
    assert_all_equal(model.get_weights(), kept[1])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"target": (TARGET, SOURCE[1])}, TypeError),
        ({}, TypeError),
        ({"target": TARGET, "scores": ("best",)}, ValueError),
        ({"target": TARGET, "scores": ("dev",)}, ValueError),
    ],
)
def test_wrong_arguments_and_labels_of_the_target_are_refused_before_training(arguments, error):
    with pytest.raises(error):
        SelectionScores(**arguments)
