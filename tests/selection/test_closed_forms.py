"""The scores of the target of predictions for which they can be written down."""

import math

import numpy as np
import pytest
from checkpoints import as_logits

from dann.selection import SCORES, outputs_of

ONE_HOT = 10_000 * np.tile(np.eye(3, dtype="float32"), (8, 1))
CLUSTER, OTHERS = 7 * math.exp(20), 16
CLOSED_FORMS = {
    "uniform": (
        np.zeros((24, 3), "float32"),
        {
            "entropy": -math.log(3),
            "info_max": 0.0,
            "snd": math.log(23),
            "bnm": 1 / 3,
            "mcc": -2 / 3,
            "mix_val": 0.5,
        },
    ),
    "certain, in equal parts": (
        ONE_HOT,
        {
            "entropy": 0.0,
            "info_max": math.log(3),
            "snd": math.log(CLUSTER + OTHERS) - 20 * CLUSTER / (CLUSTER + OTHERS),
            "bnm": 1.0,
            "mcc": 0.0,
            "mix_val": 1.0,
        },
    ),
    "all of one class": (
        np.repeat(ONE_HOT[:1], 24, axis=0),
        {
            "entropy": 0.0,
            "info_max": 0.0,
            "snd": math.log(23),
            "bnm": 1 / math.sqrt(3),
            "mcc": -2 / 3,
            "mix_val": 0.5,
        },
    ),
}


@pytest.mark.parametrize("case", CLOSED_FORMS)
@pytest.mark.parametrize("name", CLOSED_FORMS["uniform"][1])
def test_closed_forms(case, name):
    target, expected = CLOSED_FORMS[case]
    score = SCORES[name](outputs_of(as_logits(), target=target, features=False))
    assert score == pytest.approx(expected[name], rel=1e-6, abs=1e-9)
