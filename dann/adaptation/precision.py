"""Where half precision would not do."""

from typing import Any

import keras
from keras import ops

HALF = ("float16", "bfloat16")


def at_least_single(value: Any) -> Any:
    """Returns a tensor of half precision in single; all else as it is."""
    if ops.is_tensor(value) and keras.backend.standardize_dtype(value.dtype) in HALF:
        return ops.cast(value, "float32")
    return value


def computes_in_half(*networks: keras.Model) -> bool:
    """Whether a layer of the networks computes in half precision."""
    return any(layer.compute_dtype in HALF for one in networks for layer in one.layers)
