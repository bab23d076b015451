import numpy as np
from checkpoints import SOURCE, TARGET, TURNS, build_checkpoint, target_accuracy

from dann.selection import SCORES, compute_scores, regret, score_checkpoints

ORACLE = [0.5, 0.25, 0.75, 0.75]


def test_regret_is_the_lost_accuracy():
    scores = {"good": [0.0, 1.0, 3.0, 2.0], "bad": np.array([-3.0, -1.0, -2.0, -2.5])}
    assert regret(scores, ORACLE) == {
        "good": {"choice": 2, "accuracy": 0.75, "regret": 0.0},
        "bad": {"choice": 1, "accuracy": 0.25, "regret": 0.5},
    }


def test_first_of_equal_scores_is_chosen_and_nan_never():
    scores = {
        "equal": [1.0, 1.0, 1.0, 1.0],
        "late": [0.0, 1.0, 1.0, 1.0],
        "diverged": [float("-inf"), np.nan, -2.0, np.nan],
    }
    choices = {name: result["choice"] for name, result in regret(scores, ORACLE).items()}
    assert choices == {"equal": 0, "late": 1, "diverged": 2}


def test_checkpoints_are_scored_in_order():
    scores = score_checkpoints(map(build_checkpoint, TURNS), source=SOURCE, target=TARGET)
    expected = compute_scores(build_checkpoint(TURNS[2]), source=SOURCE, target=TARGET)
    assert {name: values[2] for name, values in scores.items()} == expected
    results = regret(scores, [target_accuracy(turn) for turn in TURNS])
    assert set(results) == set(SCORES)
    for name in ("entropy", "info_max", "bnm", "mcc"):  # they see the clusters of the target
        assert results[name] == {"choice": 4, "accuracy": 1.0, "regret": 0.0}
    assert results["source_accuracy"]["regret"] > 0.2


def test_diverged_checkpoint_is_never_chosen():
    broken = build_checkpoint(0)
    broken.backbone.trainable_weights[0].assign(np.full((2, 2), np.nan))
    models = [broken, build_checkpoint(0), build_checkpoint(40)]
    scores = score_checkpoints(models, source=SOURCE, target=TARGET)
    assert {values[0] for values in scores.values()} == {float("-inf")}
    results = regret(scores, [1.0, target_accuracy(0), target_accuracy(40)])
    assert all(result["choice"] > 0 for result in results.values())
