import numpy as np
import pytest

from dann.selection import Outputs
from dann.selection.expected_accuracy import estimate_accuracy


def test_confidence_is_calibrated_and_corrected_for_its_error():
    rng = np.random.default_rng(0)
    labels = np.arange(20000) % 2
    inputs = rng.normal(2 * labels - 1)[:, None]
    logits = 3 * np.hstack([-inputs, inputs])  # three times the logits of the posterior
    estimate = estimate_accuracy(Outputs(logits, source_logits=logits, source_labels=labels))
    # The calibrated confidence is the accuracy of Bayes' rule, the normal CDF at 1.
    assert estimate.accuracy == pytest.approx(0.8413 - 0.166, abs=0.01)
    assert estimate.low == pytest.approx(0.8413 - 0.426, abs=0.01)
    assert estimate.high == pytest.approx(0.8413 - 0.039, abs=0.01)
    assert "rejected (90% interval 42% to 80%, too wide: label 50 examples)" in str(estimate)
    # A classifier that always predicts equal probabilities.
    flat = estimate_accuracy(Outputs(0 * logits, source_logits=0 * logits, source_labels=labels))
    assert flat == pytest.approx((0.5 - 0.166, 0.5 - 0.426, 0.5 - 0.039))
