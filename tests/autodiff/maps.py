"""Functions with known Jacobians, in `keras.ops` and in NumPy."""

import numpy as np
from keras import ops
from support.closed_forms import jacobian_by_differences

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(3, 4)).astype("float32")
WEIGHTS = (RNG.normal(size=(4, 5)) / 2).astype("float32")
SCALES = RNG.normal(size=(5,)).astype("float32")


def linear(x):
    """Returns `W^T x`, with the Jacobian `W^T` for every example."""
    return ops.matmul(x, ops.convert_to_tensor(WEIGHTS))


def curved(x):
    """Returns `s tanh(W^T x)`, with the Jacobian `diag(s (1 - tanh^2)) W^T`."""
    return ops.convert_to_tensor(SCALES) * ops.tanh(linear(x))


def curved_numpy(x):
    return SCALES.astype("float64") * np.tanh(x @ WEIGHTS.astype("float64"))


# (batch, outputs, inputs), by differences
CURVED_JACOBIAN = np.stack([jacobian_by_differences(curved_numpy, x.astype(float)) for x in INPUTS])


def assert_close(tensor, expected, rtol=1e-5, atol=1e-6):
    """Compares a tensor of any backend with an array."""
    np.testing.assert_allclose(ops.convert_to_numpy(tensor), expected, rtol=rtol, atol=atol)


EDGES = np.array([[-2.0, -1.0, -0.5, -0.0], [0.0, 0.5, 1.0, 2.0]], "float32")
EDGES_PASS = (np.abs(EDGES) <= 1).astype("float32")
