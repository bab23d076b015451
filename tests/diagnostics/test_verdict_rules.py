"""The rules of the verdict at their thresholds."""

import numpy as np
import pytest

from dann.diagnostics import verdict

ALIGNED = {
    "reversal/state": "working",
    "reversal/head_norm": 0.1,
    "domain/spread": 0.2,
    "domain/loss": 0.69,
    "probe/accuracy": 0.5,
    "probe/low": 0.46,
    "probe/high": 0.54,
    "probe/loss": 0.69,
    "label/loss": 0.1,
    "label/prior_entropy": 0.69,
    "label/largest_share": 0.5,
    "target/largest_share": 0.5,
    "target/share_distance": 0.1,
    "target/confident_share_distance": 0.2,
    "target/chance_share_distance": 0.07,
    "mmd/squared": 0.01,
    "mmd/null": 0.003,
    "mmd/matched": 0.01,
    "mmd/matched_null": 0.003,
    "game/step": 0.01,
    "game/growth": 1.01,
    "game/min_real_part": -0.1,
    "binary/one/pass_rate": 0.5,
}


def probe(low, high):
    return {"probe/low": low, "probe/high": high, "probe/accuracy": (low + high) / 2}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({}, "aligned"),
        ({"reversal/state": "not started"}, "aligned"),
        ({"features/spread": 0.0, "domain/spread": 0.0}, "backbone not learning"),
        ({"domain/spread": 9e-5}, "discriminator not learning"),
        ({"reversal/head_norm": 0.0}, "discriminator not learning"),
        ({"domain/spread": 0.0, "reversal/state": "not applied"}, "broken reversal"),
        ({"reversal/state": "not finite"}, "diverged"),
        ({"reversal/state": "not applied", "label/loss": float("inf")}, "diverged"),
        ({"jacobian/source/logits/top": np.array([1.0, np.nan])}, "diverged"),
        ({"sharpness/trace": float("inf")}, "diverged"),
        ({"layers/not_finite": "dense"}, "diverged"),
        ({"layers/dead_units": "14 of 16 in layer 'dense'"}, "aligned"),
        ({"game/growth": 1.11}, "unstable"),
        ({"game/growth": 1.09}, "aligned"),
        ({"reversal/state": "no gradient", "domain/loss": 3e-16}, "not aligned"),
        ({"reversal/state": "no gradient", "domain/loss": 0.5}, "discriminator not learning"),
        ({"reversal/head_norm": 0.0, "domain/loss": 3e-16}, "discriminator not learning"),
        ({"binary/one/pass_rate": 0.09}, "saturated binary layer"),
        ({"binary/one/pass_rate": 0.11}, "aligned"),
        ({"target/largest_share": 0.95}, "collapsed"),
        ({"target/largest_share": 0.95, "label/largest_share": 0.94}, "aligned"),
        ({"target/largest_share": 0.95, "reversal/state": "none"}, "source only"),
        ({"target/share_distance": 0.2}, "label shift"),
        ({"target/share_distance": 0.18}, "aligned"),
        ({"target/share_distance": 0.2, "domain/loss": 1.1}, "aligned"),
        ({"target/share_distance": 0.2, "mmd/squared": 0.06, "mmd/matched": 0.06}, "not aligned"),
        ({"target/share_distance": 0.5, "target/largest_share": 0.95}, "collapsed"),
        (probe(0.6, 0.66), "aligned"),
        (probe(0.6, 0.68), "partly aligned"),
        (probe(0.49, 0.68), "undetermined"),
        (probe(0.86, 0.9) | {"mmd/squared": 0.03}, "not aligned"),
        (probe(0.86, 0.9), "partly aligned"),  # a difference that is small compared to the spread
        (probe(0.86, 0.9) | {"reversal/state": "none"}, "source only"),
        (probe(0.4, 0.5) | {"reversal/state": "oracle"}, "oracle"),
        ({"domain/loss": 0.34}, "not aligned"),
        ({"label/loss": 0.63}, "labels not learned"),
        ({"label/loss": 0.62}, "aligned"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06}, "not aligned"),
        ({"mmd/squared": 0.06}, "aligned"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06, "mmd/null": 0.016}, "aligned"),
        ({"mmd/squared": 0.06, "mmd/matched": 0.06, "mmd/matched_null": 0.016}, "aligned"),
    ],
)
def test_rule_applies_at_its_threshold(change, name):
    assert verdict(ALIGNED | change).name == name


def test_reasons_include_findings_that_do_not_decide():
    change = {"reversal/state": "wrong strength", "reversal/ratio": 0.2, "reversal/strength": 1.0}
    result = verdict(ALIGNED | change | {"domain/loss": 1.25, "label/loss": 0.65})
    assert result.name == "labels not learned"
    for number in ("`label/loss`", "`reversal/ratio`", "`domain/loss`"):
        assert number in " ".join(result.reasons)
    assert max(map(len, str(result).splitlines())) <= 100
