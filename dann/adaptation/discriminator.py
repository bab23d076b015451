"""The loss of a domain discriminator, which `DANN`, `CDAN`, `MADA` and `PADA` share."""

from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import Batch
from dann.checks import check_number

TERMS = ("domain/loss", "domain/accuracy")


def check_smoothing(value: Any) -> float:
    """Returns `domain_label_smoothing` if it is from 0 to .5."""
    return check_number("domain_label_smoothing", value, low=0, high=0.5)


def domain_terms(
    batch: Batch, scores: Any, smoothing: float, weights: Any = None
) -> dict[str, Any]:
    """Returns the discriminator's loss and accuracy, the `TERMS`, scalars.

    With the domain label `d`, 0 for source and 1 for target, and weights `w`:

    - loss: mean of `w * BCE(score, d * (1 - 2 smoothing) + smoothing)` over all scores
    - accuracy: mean of `[score > 0] == d`

    Args:
        batch: Features of both domains.
        scores: Logits, those of the source and then those of the target: `(2 batch, k)`, of maps
            `(2 batch, ..., k)`.
        smoothing: What the labels give to the wrong domain.
        weights: Tensor `(2 batch,)`. Defaults to `None`: 1.
    """
    source, target = batch.by_domain(scores)
    domain = ops.concatenate([ops.zeros_like(source), ops.ones_like(target)])
    smoothed = domain * (1 - 2 * smoothing) + smoothing
    # Joined anew, because Keras looks behind a sigmoid that it finds for the logits.
    joined = ops.concatenate([source, target])
    losses = keras.losses.binary_crossentropy(smoothed, joined, from_logits=True)
    right = ops.equal(joined > 0, domain > 0.5)
    return {
        "domain/loss": ops.mean(losses if weights is None else weights * losses),
        "domain/accuracy": ops.mean(ops.cast(right, "float32")),
    }
