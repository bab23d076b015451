from typing import Any

from keras import ops

from dann.adaptation.batch import upcast_half
from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer


@REGULARIZERS.register("coral")
class CORAL(Regularizer):
    """Deep CORAL: brings the covariances of source and target features together.

    With the covariance `C = (X'X - (1'X)'(1'X) / n) / (n - 1)` of the features `X`, `(n, d)`, of
    each domain, the loss is `||C_s - C_t||_F^2 / (4 d^2)`. The regularizer needs no adversary; with
    `dann.SourceOnly`, it is the method of the paper. Positions of feature maps count as examples.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `1.0`.

    Example:

    >>> import dann
    >>> backbone = dann.networks.mlp_backbone((2,))
    >>> model = dann.SourceOnly(backbone, num_classes=3, regularizers=[dann.CORAL()])

    Reference:
        - [Sun and Saenko, 2016](https://arxiv.org/abs/1607.01719), equations 1 to 3.
    """

    name = "coral"
    needs_target_logits = False
    supports_maps = True

    def losses(self, model, batch, reversal, training):
        source, target = (covariance(batch.features[name]) for name in ("source", "target"))
        size = source.shape[-1]
        return {"coral/loss": ops.sum(ops.square(source - target)) / (4 * size**2)}


def covariance(features: Any) -> Any:
    """Returns the unbiased covariance `(d, d)` of features `(..., d)`."""
    features = ops.reshape(upcast_half(features), (-1, features.shape[-1]))
    # Centered first: the difference of the paper's two large sums loses digits in float32.
    centered = features - ops.mean(features, axis=0)
    count = ops.cast(ops.shape(features)[0], centered.dtype)
    return ops.matmul(ops.transpose(centered), centered) / ops.maximum(count - 1, 1)
