from typing import Any

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import size_of


@METHODS.register("daln")
class DALN(AdversarialModel):
    """Discriminator-free adversarial learning network.

    The classifier itself is the critic. The nuclear norm of a batch of predictions is large if they
    are sure and diverse; the classifier learns to make it larger on the source than on the target.
    Through a gradient reversal the backbone learns features for which both norms are alike.

    With features `f`, label head `c`, `Z_s`, `Z_t` the batches of `softmax(c(f(x)))`, of `n_s` and
    `n_t` rows, and `CE` the cross-entropy from logits, one step descends

    - for `c`: `mean_s CE(c(f(x_s)), y_s) - W`, where `W = ||Z_s||_* / n_s - ||Z_t||_* / n_t`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) + strength * W`

    In training the logs also hold `discrepancy/loss`, which is `-W`.

    The arguments are those of `AdversarialModel`, but `strength` defaults to the paper's `1.0`.

    Example:

    >>> import dann
    >>> model = dann.DALN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.compile("sgd", metrics=["accuracy"])

    Reference:
        - [Chen et al., 2022](https://arxiv.org/abs/2204.03838), section 3: the nuclear-norm
          Wasserstein discrepancy, and the objective with the classifier as its critic.
    """

    terms = ("discrepancy/loss",)
    needs_classes = True

    def __init__(self, *args, strength: Any = 1.0, **kwargs):
        super().__init__(*args, strength=strength, **kwargs)

    def method_losses(self, batch, labels, reversal, training):
        logits = batch.behind_reversal(self.label_head, reversal, training)
        source, target = map(_norm_by_row, batch.split_domains(logits))
        return {"discrepancy/loss": target - source}


def _norm_by_row(logits):
    predictions = ops.softmax(logits)
    return nuclear_norm(predictions) / ops.cast(size_of(predictions), predictions.dtype)


def nuclear_norm(matrix: Any) -> Any:
    """Returns the nuclear norm of a matrix, the sum of its singular values, as a scalar.

    - forward: `||Z||_* = sum_i s_i`, with `Z = U diag(s) V^T`
    - backward: `d||Z||_* / dZ = U V^T`, over the singular values above 0

    This backward pass is right also where singular values are equal and the derivative of the
    decomposition is not finite. If the rank is deficient, it is the subgradient that is 0 on the
    null space. It uses `||Z||_* = sum(U V^T * Z)`, with `U V^T` as a constant.

    Args:
        matrix: Floating-point tensor `(rows, columns)`.

    Example:

    >>> import keras
    >>> from dann.adaptation.daln import nuclear_norm
    >>> round(float(nuclear_norm(keras.ops.array([[3.0, 0.0], [0.0, -4.0]]))), 4)
    7.0

    Reference:
        - [Watson, 1992](https://doi.org/10.1016/0024-3795%2892%2990407-2), on the subdifferentials
          of matrix norms.
    """
    parts: Any = ops.svd(ops.stop_gradient(matrix), full_matrices=False)
    left, values, right = parts
    kept = ops.cast(values > 1e-6 * values[0], matrix.dtype)  # smaller ones are rounding errors
    polar = ops.matmul(left * kept, right)  # of the shape of the matrix
    return ops.sum(ops.stop_gradient(polar) * matrix)
