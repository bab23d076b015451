from typing import Any

from keras import ops

from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer


@REGULARIZERS.register("entropy")
class ConditionalEntropy(Regularizer):
    """Mean entropy of the target's predictions: moves the decision boundary away from the data.

    - loss: `mean_t H(p_t)` with `H(p) = -sum_k p_k log p_k` and `p_t = softmax(logits)`

    For maps of logits the mean includes all positions.

    The loss alone is lowest if every example has the same class. Combine it with a method that
    aligns the domains and, as in VADA, with `VirtualAdversarial`.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `0.01`, as in VADA.

    Example:

    >>> import dann
    >>> backbone = dann.networks.mlp_backbone((2,))
    >>> model = dann.DANN(backbone, num_classes=3, regularizers=[dann.ConditionalEntropy(0.1)])

    Reference:
        - [Grandvalet and Bengio, 2005](https://papers.nips.cc/paper/2740), equation 6.
        - [Shu et al., 2018](https://arxiv.org/abs/1802.08735), equation 6.
    """

    name = "entropy"
    needs_classes = True
    supports_maps = True

    def __init__(self, weight: float = 0.01):
        super().__init__(weight)

    def losses(self, model, batch, reversal, training):
        return {"entropy/loss": ops.mean(entropy(batch.logits["target"]))}


def entropy(logits: Any) -> Any:
    """Returns the entropy of the softmax of each row of logits, `(batch, ...)`."""
    log_p = ops.log_softmax(logits)
    return -ops.sum(ops.exp(log_p) * log_p, axis=-1)


def certainty_weights(logits: Any) -> Any:
    """Returns `1 + exp(-H)` of each row with entropy `H`, divided by its mean, as a constant."""
    weights = 1 + ops.exp(-entropy(ops.stop_gradient(logits)))
    return weights / ops.mean(weights)
