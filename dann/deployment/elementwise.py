"""Steps that treat every value, or every channel, separately."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dann.deployment.program import Step


def as_floats(values: np.ndarray) -> np.ndarray:
    """Returns values or sums as `float32`."""
    return values.astype("float32", copy=False)


def scaled_and_shifted(values: Any, arrays: Mapping[str, Any]) -> Any:
    """Returns `values * scale + offset`; either may be missing from the arrays.

    It rounds twice, as the model does: multiplication and addition are not fused.
    """
    if "scale" in arrays:
        values = values * arrays["scale"]
    return values + arrays["offset"] if "offset" in arrays else values


def _affine(step):
    arrays = {name: array.astype("float32") for name, array in step.arrays.items()}
    return lambda values: scaled_and_shifted(as_floats(values), arrays)


def _prelu(step):
    slopes = step.arrays["slopes"].astype("float32")

    def run(values):
        values = as_floats(values)
        return np.where(values > 0, values, values * slopes)

    return run


def _relu(values):
    return np.maximum(values, np.float32(0))


def _sigmoid(values):
    shrunk = np.exp(-np.abs(values))
    return np.where(values >= 0, 1 / (1 + shrunk), shrunk / (1 + shrunk)).astype("float32")


def _softmax(values):
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


FUNCTIONS = {"relu": _relu, "sigmoid": _sigmoid, "softmax": _softmax, "tanh": np.tanh}


def _activation(step):
    function = FUNCTIONS[step.attributes["function"]]
    return lambda values: function(as_floats(values))


ELEMENTWISE: Mapping[str, Callable[[Step], Callable[[np.ndarray], np.ndarray]]] = {
    "activation": _activation,
    "affine": _affine,
    "prelu": _prelu,
}
