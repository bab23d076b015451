"""What a fresh probe tells apart, against what is known of normal distributions."""

import numpy as np
import pytest
from scipy import stats

from dann.selection import probe_domains

SOURCE, TARGET = np.random.default_rng(5).normal(size=(2, 60, 2))


@pytest.mark.parametrize("probe", ["logistic", "mlp"])
def test_a_probe_is_as_right_as_two_normal_distributions_allow(probe):
    """At distance 2 the best classifier is right on the normal distribution at 1, 84.1%."""
    source, target = np.random.default_rng(0).normal(size=(2, 2000, 3))
    target[:, 0] += 2
    assert probe_domains(source, target, probe).accuracy == pytest.approx(0.841, abs=0.02)


def test_the_interval_is_that_of_wilson_of_equally_many_examples():
    p, low, high, _ = probe_domains(SOURCE, TARGET[:50] + 0.5)
    n, z = 100, stats.norm.ppf(0.975)
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    assert (low, high) == pytest.approx((middle - half, middle + half))


def test_a_difference_tiny_beside_the_spread_hardly_changes_the_loss():
    source, target = np.random.default_rng(2).normal(size=(2, 500, 2)) * [1.0, 1e-4]
    target[:, 1] += 1e-3
    assert probe_domains(source, target).loss > 0.68
    assert probe_domains(source, source).low < 0.5


@pytest.mark.parametrize(
    "arguments", [(SOURCE[:4], TARGET), (SOURCE, TARGET[:4]), (SOURCE, TARGET, "svm")]
)
def test_too_few_examples_and_unknown_probes_are_refused(arguments):
    with pytest.raises(ValueError, match="."):
        probe_domains(*arguments)
