"""Scores of a series of checkpoints, for `evaluate`."""

import numpy as np
from support.checkpoints import SOURCE, TARGET, TURNS, checkpoint, target_accuracy

from dann.selection import SCORES, compute_scores, evaluate, score_checkpoints

ORACLE = [target_accuracy(turn) for turn in TURNS]


def test_every_score_of_a_series_stands_beside_the_oracle():
    scores = score_checkpoints(map(checkpoint, TURNS), source=SOURCE, target=TARGET)
    for index, turn in enumerate(TURNS):
        wanted = compute_scores(checkpoint(turn), source=SOURCE, target=TARGET)
        assert {name: values[index] for name, values in scores.items()} == wanted
    found = evaluate(scores, ORACLE)
    assert set(found.scores) == set(SCORES)
    assert found.left_out == {}
    assert found.scores["mcc"] == {"choice": 4, "accuracy": 1.0, "regret": 0.0}


def test_one_model_that_changes_is_scored_as_it_is_at_each_turn():
    """A generator that loads one checkpoint after the other into the same model."""
    model = checkpoint(TURNS[0])

    def loaded():
        for turn in TURNS:
            model.set_weights(checkpoint(turn).get_weights())
            yield model

    scores = score_checkpoints(loaded(), source=None, target=TARGET, scores=["info_max"])
    assert np.argmax(scores["info_max"]) == 4
    assert len(set(scores["info_max"])) > 1


def test_a_checkpoint_that_diverged_is_never_chosen():
    broken = checkpoint(0)
    broken.backbone.trainable_weights[0].assign(np.full((2, 2), np.nan))
    models = [broken, checkpoint(0), checkpoint(40)]
    scores = score_checkpoints(models, source=SOURCE, target=TARGET)
    assert {values[0] for values in scores.values()} == {float("-inf")}
    found = evaluate(scores, [1.0, target_accuracy(0), target_accuracy(40)])
    assert all(of["choice"] > 0 for of in found.scores.values())
