from keras import ops

from dann.adaptation.regularizers.conditional_entropy import certainty_weights
from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer
from dann.checks import check_number


@REGULARIZERS.register("mcc")
class MCC(Regularizer):
    """Minimum class confusion: penalizes target predictions that mix classes.

    With the softmax `p` of the target's logits divided by `temperature`, `(batch, classes)`, and
    the entropy `H` of its rows,

    - `w_i = batch * (1 + exp(-H_i)) / sum_k (1 + exp(-H_k))`, larger for confident predictions
    - `C_jk = sum_i w_i p_ij p_ik`, and `C'_jk = C_jk / sum_l C_jl`
    - loss: `sum_{j != k} C'_jk / classes`

    The weights `w` receive no gradient, as in the authors' code.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `1.0`.
        temperature: Divisor of the logits, above 0. Defaults to `2.5`.

    Example:

    >>> import dann
    >>> backbone = dann.networks.mlp_backbone((2,))
    >>> model = dann.DANN(backbone, num_classes=3, regularizers=[dann.MCC(temperature=2.0)])

    Reference:
        - [Jin et al., 2020](https://arxiv.org/abs/1912.03699), equations 1 to 7.
    """

    name = "mcc"
    arguments = ("weight", "temperature")
    needs_classes = True

    def __init__(self, weight: float = 1.0, temperature: float = 2.5):
        super().__init__(weight)
        self.temperature = check_number("temperature", temperature, low=0, exclude_low=True)

    def losses(self, model, batch, reversal, training):
        logits = batch.logits["target"] / self.temperature
        p = ops.softmax(logits)
        # (classes, batch) @ (batch, classes)
        confusion = ops.matmul(ops.transpose(p) * certainty_weights(logits), p)
        # The row of a class that is never predicted underflows and must not become NaN.
        shares = confusion / ops.maximum(ops.sum(confusion, axis=1, keepdims=True), 1e-30)
        return {"mcc/loss": (ops.sum(shares) - ops.trace(shares)) / ops.shape(shares)[0]}
