"""The callback in a real training, before the callbacks that choose by it."""

import keras
import numpy as np
import pytest
from checkpoints import SOURCE, TARGET

from dann.adaptation import DANN
from dann.networks import mlp_backbone
from dann.selection import SelectionScores, compute_scores
from dann.selection.outputs import NotFiniteError

NAMES = ("info_max", "mix_val", "reverse_validation")  # of logits, mixtures and features


def trained(callbacks, epochs=4):
    """A DANN that trains from the same start on the same batches; its history."""
    keras.utils.set_random_seed(1)
    model = DANN(mlp_backbone((2,), hidden_units=(8,)), num_classes=3)
    model.compile(keras.optimizers.Adam(0.02), metrics=["accuracy"], jit_compile=False)
    pair = {"source": SOURCE[0], "target": TARGET}
    history = model.fit(
        pair, SOURCE[1], batch_size=21, epochs=epochs, callbacks=callbacks, verbose=0
    )
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


class Weights(keras.callbacks.Callback):
    """Keeps the weights after every epoch."""

    def __init__(self):
        super().__init__()
        self.epochs = []

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append([np.array(weight) for weight in self.model.trainable_weights])


def assert_same(weights, expected):
    for weight, other in zip(weights, expected, strict=True):
        np.testing.assert_array_equal(np.array(weight), other)


def test_scores_of_each_epoch_enter_the_logs_and_do_not_change_the_training():
    expected = []

    class Recompute(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            expected.append(compute_scores(self.model, source=SOURCE, target=TARGET, scores=NAMES))

    scores = SelectionScores(NAMES, source=SOURCE, target=TARGET)
    model, history = trained([scores, Recompute()], epochs=2)
    for name in NAMES:
        values = [row[name] for row in expected]
        assert history[f"selection/{name}"] == pytest.approx(values, rel=1e-6)
    alone, without = trained([], epochs=2)
    assert {key: history[key] for key in without} == without
    assert_same(model.trainable_weights, alone.trainable_weights)


@pytest.mark.parametrize("start", [0.1, None])
def test_stopping_and_checkpoint_follow_the_score_even_if_the_model_diverged_first(tmp_path, start):
    path, kept = tmp_path / "best.weights.h5", Weights()
    monitor = {"monitor": "selection/planted", "mode": "max"}
    callbacks = [
        SelectionScores({"planted": planted(start, 0.5, 0.3, 0.4, 0.9)}, target=TARGET),
        kept,
        keras.callbacks.ModelCheckpoint(
            path, save_best_only=True, save_weights_only=True, **monitor
        ),
        keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True, **monitor),
    ]
    model, history = trained(callbacks, epochs=5)
    first = -np.inf if start is None else start
    assert history["selection/planted"] == [first, 0.5, 0.3, 0.4]  # it stopped before .9
    assert_same(model.trainable_weights, kept.epochs[1])
    model.load_weights(path)
    assert_same(model.trainable_weights, kept.epochs[1])


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
