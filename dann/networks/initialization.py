"""Initial weights as other libraries draw them."""

import math
from typing import Any

import keras

from dann.checks import check_choice

INITIALIZERS = ("keras", "torch")


def initializers(name: str, fan_in: int) -> dict[str, Any]:
    """Returns the arguments with which a layer draws its kernel and bias.

    `"keras"` keeps the defaults: Glorot's uniform kernels and biases of 0. `"torch"` draws both
    from the uniform distribution between `-1 / sqrt(fan_in)` and `1 / sqrt(fan_in)`, PyTorch's
    default for dense layers and convolutions.

    Args:
        name: `"keras"` or `"torch"`.
        fan_in: Inputs of one output of the layer.

    Raises:
        ValueError: If `name` is neither.
    """
    if check_choice("initializer", name, INITIALIZERS) == "keras":
        return {}
    limit = 1 / math.sqrt(fan_in)
    return {
        f"{part}_initializer": keras.initializers.RandomUniform(-limit, limit)
        for part in ("kernel", "bias")
    }
