"""What choosing by each score costs, of given numbers and of a series of checkpoints."""

import numpy as np
import pytest
from checkpoints import SOURCE, TARGET, TURNS, checkpoint, target_accuracy

from dann.selection import SCORES, compute_scores, regret, score_checkpoints

ORACLE = [0.5, 0.25, 0.75, 0.75]


def test_regret_is_the_accuracy_that_the_choice_loses():
    scores = {"good": [0.0, 1.0, 3.0, 2.0], "bad": np.array([-3.0, -1.0, -2.0, -2.5])}
    assert regret(scores, ORACLE) == {
        "good": {"choice": 2, "accuracy": 0.75, "regret": 0.0},
        "bad": {"choice": 1, "accuracy": 0.25, "regret": 0.5},
    }


def test_the_earliest_of_equal_scores_is_chosen_and_nan_never():
    scores = {
        "equal": [1.0, 1.0, 1.0, 1.0],
        "late": [0.0, 1.0, 1.0, 1.0],
        "diverged": [float("-inf"), np.nan, -2.0, np.nan],
    }
    choices = {name: found["choice"] for name, found in regret(scores, ORACLE).items()}
    assert choices == {"equal": 0, "late": 1, "diverged": 2}


def test_scores_and_oracle_must_have_a_value_for_each_checkpoint():
    with pytest.raises(ValueError, match="'short' and the oracle"):
        regret({"short": [1.0, 2.0, 3.0]}, ORACLE)


def test_a_score_without_a_finite_number_is_left_out():
    scores = {"lost": [float("nan"), float("-inf"), float("nan")], "own": [0.0, np.nan, 1.0]}
    assert regret(scores, ORACLE[:3]) == {"own": {"choice": 2, "accuracy": 0.75, "regret": 0.0}}


def test_a_series_of_checkpoints_is_scored_beside_the_oracle():
    scores = score_checkpoints(map(checkpoint, TURNS), source=SOURCE, target=TARGET)
    wanted = compute_scores(checkpoint(TURNS[2]), source=SOURCE, target=TARGET)
    assert {name: values[2] for name, values in scores.items()} == wanted
    found = regret(scores, [target_accuracy(turn) for turn in TURNS])
    assert set(found) == set(SCORES)
    for name in ("entropy", "info_max", "bnm", "mcc"):  # they see the clusters of the target
        assert found[name] == {"choice": 4, "accuracy": 1.0, "regret": 0.0}
    assert found["source_accuracy"]["regret"] > 0.2


def test_a_diverged_checkpoint_is_never_chosen():
    broken = checkpoint(0)
    broken.backbone.trainable_weights[0].assign(np.full((2, 2), np.nan))
    models = [broken, checkpoint(0), checkpoint(40)]
    scores = score_checkpoints(models, source=SOURCE, target=TARGET)
    assert {values[0] for values in scores.values()} == {float("-inf")}
    found = regret(scores, [1.0, target_accuracy(0), target_accuracy(40)])
    assert all(of["choice"] > 0 for of in found.values())
