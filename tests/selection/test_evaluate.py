import numpy as np
import pytest

from dann.selection import SCORES, evaluate, regret

ORACLE = [0.5, 0.25, 0.75]


def test_every_score_is_told_of_or_left_out_with_the_reason():
    scores = {
        "snd": [1.0, 3.0, 2.0],
        "own": [0.0, float("nan"), 1.0],
        "bnm": [float("-inf")] * 3,
        "dev": [float("nan"), float("-inf"), float("nan")],
    }
    found = evaluate(scores, ORACLE)
    assert found.scores == {
        "snd": {"choice": 1, "accuracy": 0.25, "regret": 0.5},
        "own": {"choice": 2, "accuracy": 0.75, "regret": 0.0},
    }
    assert set(found.left_out) == set(SCORES) - {"snd"}
    for name, reason in found.left_out.items():
        wanted = "no number at any checkpoint" if name in ("bnm", "dev") else "not computed"
        assert wanted in reason, name


def test_with_every_score_at_hand_none_is_left_out():
    rng = np.random.default_rng(0)
    scores = {name: list(rng.normal(size=3)) for name in SCORES}
    found = evaluate(scores, ORACLE)
    assert found.left_out == {}
    assert found.scores == regret(scores, ORACLE)


@pytest.mark.parametrize("values", [[1.0], []])
def test_series_that_do_not_fit_the_oracle_are_refused_not_left_out(values):
    with pytest.raises(ValueError, match="'snd'"):
        evaluate({"snd": values}, ORACLE)
