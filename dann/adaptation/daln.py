from typing import Any, Unpack

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import count_examples
from dann.adaptation.options import ReversalOptions
from dann.schedules import StrengthSchedule


@METHODS.register("daln")
class DALN(AdversarialModel):
    """Discriminator-free adversarial learning network.

    The classifier itself is the critic. The nuclear norm of a batch of predictions is large if the
    predictions are confident and diverse. The classifier learns to make the norm larger on the
    source than on the target. Through a gradient reversal, the backbone learns features with equal
    norms.

    With features `f`, label head `c`, `Z_s`, `Z_t` the batches of `softmax(c(f(x)))`, of `n_s` and
    `n_t` rows, and `CE` the cross-entropy from logits, each step minimizes

    - for `c`: `mean_s CE(c(f(x_s)), y_s) - W`, where `W = ||Z_s||_* / n_s - ||Z_t||_* / n_t`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) + strength * W`

    In training the logs also contain `discrepancy/loss`, which is `-W`.

    Args:
        backbone: Network from inputs to features; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        strength: Strength of the gradient reversal; see `AdversarialModel`. Defaults to `1.0`, as
            in the paper.
        **options: The other options of `AdversarialModel`.

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

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule = 1.0,
        **options: Unpack[ReversalOptions],
    ):
        super().__init__(backbone, num_classes, label_head, strength=strength, **options)

    def method_losses(self, batch, reversal, training):
        logits = batch.apply_reversed(self.label_head, reversal, training)  # (2 batch, classes)
        # ||Z_s||_* / n_s and ||Z_t||_* / n_t
        source, target = (
            nuclear_norm(ops.softmax(part)) / ops.cast(count_examples(part), part.dtype)
            for part in batch.split_domains(logits)
        )
        return {"discrepancy/loss": target - source}


def nuclear_norm(matrix: Any) -> Any:
    """Returns the nuclear norm of a matrix, the sum of its singular values, as a scalar.

    - forward: `||Z||_* = sum_i s_i`, with `Z = U diag(s) V^T`
    - backward: `d||Z||_* / dZ = U V^T`, over the singular values above 0

    This backward pass is also correct if singular values are equal, where the derivative of the
    decomposition is not finite. For a rank-deficient matrix, the result is the subgradient that is
    0 on the null space. The value is computed as `sum(U V^T * Z)`, with `U V^T` as a constant.

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
    decomposition: Any = ops.svd(ops.stop_gradient(matrix), full_matrices=False)
    u, singular_values, v_transposed = decomposition
    # Singular values below this bound are rounding errors.
    is_positive = ops.cast(singular_values > 1e-6 * singular_values[0], matrix.dtype)
    polar_factor = ops.matmul(u * is_positive, v_transposed)  # (rows, columns)
    return ops.sum(ops.stop_gradient(polar_factor) * matrix)
