"""Which variables are the latent kernels of binary layers."""

from typing import Any


def is_binary(variable: Any) -> bool:
    """Returns whether this variable is the latent kernel of a binary layer.

    The layer marks it by the attribute `binary`, which biases, the parameters of batch
    normalization and kernels of more than one bit do not have.

    Args:
        variable: A `keras.Variable`.
    """
    return bool(getattr(variable, "binary", False))
