"""Domain probes, against known results for normal distributions."""

import numpy as np
import pandas
import pytest
from scipy import stats

from dann.data.probes import probe_domains

SOURCE, TARGET = np.random.default_rng(5).normal(size=(2, 60, 2))


@pytest.mark.parametrize("probe", ["logistic", "mlp"])
def test_accuracy_is_near_the_bayes_rate(probe):
    """At distance 2 the best accuracy is the normal distribution function at 1, 84.1%."""
    source, target = np.random.default_rng(0).normal(size=(2, 2000, 3))
    target[:, 0] += 2
    assert probe_domains(source, target, probe).accuracy == pytest.approx(0.841, abs=0.02)


def test_interval_is_wilsons_also_for_frames():
    p, low, high, _ = probe_domains(SOURCE, TARGET[:50] + 0.5)
    frames = [pandas.DataFrame(x, columns=["a", "b"]) for x in (SOURCE, TARGET[:50] + 0.5)]
    assert probe_domains(*frames)[:3] == (p, low, high)
    with pytest.raises(ValueError, match="same columns in the same order"):
        probe_domains(frames[0], frames[1][["b", "a"]])
    n, z = 100, stats.norm.ppf(0.975)
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    assert (low, high) == pytest.approx((middle - half, middle + half))


def test_small_difference_hardly_changes_the_loss():
    source, target = np.random.default_rng(2).normal(size=(2, 500, 2)) * [1.0, 1e-4]
    target[:, 1] += 1e-3
    assert probe_domains(source, target).loss > 0.68
    assert probe_domains(source, source).low < 0.5
