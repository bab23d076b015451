import numpy as np
import pytest

from dann.selection import regret

ORACLE = [0.5, 0.25, 0.75, 0.75]


def test_regret_is_what_the_choice_of_a_score_loses():
    scores = {"good": [0.0, 1.0, 3.0, 2.0], "bad": np.array([-3.0, -1.0, -2.0, -2.5])}
    assert regret(scores, ORACLE) == {
        "good": {"choice": 2, "accuracy": 0.75, "regret": 0.0},
        "bad": {"choice": 1, "accuracy": 0.25, "regret": 0.5},
    }


def test_of_equal_scores_the_earliest_is_chosen_whatever_the_oracle_says():
    assert regret({"equal": [1.0, 1.0, 1.0, 1.0]}, ORACLE)["equal"]["choice"] == 0
    assert regret({"equal": [0.0, 1.0, 1.0, 1.0]}, ORACLE)["equal"]["choice"] == 1


def test_a_score_that_is_no_number_is_never_chosen():
    diverged = [float("-inf"), np.nan, -2.0, np.nan]
    assert regret({"diverged": diverged}, ORACLE)["diverged"]["choice"] == 2
    with pytest.raises(ValueError, match="'lost' must have a number to choose by"):
        regret({"lost": [np.nan] * 4}, ORACLE)


def test_series_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="'short' and the oracle .*Received: 3 and 4"):
        regret({"short": [1.0, 2.0, 3.0]}, ORACLE)
    with pytest.raises(ValueError, match=r"an accuracy of each checkpoint. Received: oracle=\[\]"):
        regret({"any": [1.0]}, [])
    with pytest.raises(ValueError, match="an accuracy of each checkpoint"):
        regret({"any": [1.0]}, [np.nan])
    with pytest.raises(ValueError, match="'none' must have a number to choose by"):
        regret({"none": []}, ORACLE)
