"""The accuracy to expect on a target without labels."""

from typing import Any, NamedTuple

from scipy import special

from dann.selection.outputs import Outputs, compute_outputs
from dann.selection.shares import calibrate, read_outputs

# Accuracy minus average confidence on the target: 5%, 50% and 95% quantiles over 630 runs on 35
# pairs of domains (texts, emoji, digits; source only, CORAL, MCC, DANN, CDAN, SDAT; three seeds).
_LOW, _MEDIAN, _HIGH = -0.426, -0.166, -0.039
_MAX_CLASSES = 10  # of these pairs
_MAX_WIDTH = 0.2  # of an interval that is narrow enough to use


class AccuracyEstimate(NamedTuple):
    """The accuracy to expect on the target, as `expected_accuracy` returns it.

    Attributes:
        accuracy: The estimate, in [0, 1].
        low: Lower end of its 90% interval.
        high: Upper end of the interval.
    """

    accuracy: float
    low: float
    high: float

    @property
    def rejection_reason(self) -> str | None:
        """Why the estimate is rejected, or `None`."""
        if self.high - self.low > _MAX_WIDTH:
            return f"the 90% interval is wider than {100 * _MAX_WIDTH:.0f} points"
        return None

    def __str__(self):
        interval = f"(90% interval {self.low:.0%} to {self.high:.0%})"
        if self.rejection_reason:
            return f"Expected target accuracy: unknown {interval}; label 50 examples"
        return f"Expected target accuracy: {self.accuracy:.0%} {interval}"


def expected_accuracy(
    model: Any, *, source: tuple[Any, Any], target: Any, batch_size: int = 256
) -> AccuracyEstimate:
    """Returns a 90% interval for the target accuracy, which is currently too wide to be accepted.

    The target needs no labels. Every interval is at least 0.387 wide, and intervals wider than 0.2
    are rejected. Measure the accuracy on labeled examples instead (`label=50` of
    `scripts/evaluate.py`). The page "Experiments" compares estimates.

    On the held-out source, a temperature and one bias per class are fitted by maximum likelihood.
    The average confidence `c` is the mean over the target of the largest calibrated probability.
    It is nearly always too high after a shift: on 35 pairs of domains, the median error was 0.166,
    and 90% of the errors were between 0.039 and 0.426. Therefore

    - `accuracy = c - 0.166`, at least 0, with the 90% interval `[c - 0.426, c - 0.039]`

    The pairs had 2 to 10 classes. With more classes, or for `c < 0.426`, the interval is [0, 1].
    `rejection_reason` of the result contains the reason.

    Args:
        model: Model of `dann.adaptation`, or any Keras model from inputs to logits.
        source: Inputs and labels of source examples that training does not see; see
            `compute_outputs`.
        target: Inputs of the target, without labels.
        batch_size: Number of examples per batch. Defaults to `256`.

    Raises:
        NotFiniteError: If a logit is not finite. It is a `ValueError`.
        TypeError: If `model` is not a Keras model, or `source` or `target` has another form.
        ValueError: If there are fewer than 2 classes, or a source example has no class number.

    Example:

    >>> import dann, numpy as np
    >>> model = dann.SourceOnly(dann.networks.mlp_backbone((2,)), num_classes=2)
    >>> x, y = np.random.default_rng(0).normal(size=(90, 2)).astype("float32"), np.arange(90) % 2
    >>> estimate = dann.selection.expected_accuracy(model, source=(x, y), target=x)
    >>> estimate.low <= estimate.accuracy <= estimate.high
    True

    Reference:
        - [Garg et al., 2022](https://arxiv.org/abs/2201.04234), section 2, on average confidence.
    """
    return estimate_accuracy(
        compute_outputs(
            model, source=source, target=target, features=False, mixed=False, batch_size=batch_size
        )
    )


def estimate_accuracy(outputs: Outputs) -> AccuracyEstimate:
    """Returns the result of `expected_accuracy` for outputs of the source and the target."""
    source, labels, target = read_outputs(outputs)
    temperature, biases = calibrate(source, labels)
    confidence = float(special.softmax(target / temperature + biases, axis=1).max(axis=1).mean())
    low, high = confidence + _LOW, confidence + _HIGH
    if low < 0 or source.shape[1] > _MAX_CLASSES:  # outside the range of the calibration
        low, high = 0.0, 1.0
    return AccuracyEstimate(max(confidence + _MEDIAN, 0.0), low, high)
