"""The estimated Frobenius norm against the norm of the matrix."""

import keras
import numpy as np
import pytest
from keras import ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, assert_close, curved
from support.modes import parametrize_mode, run_in_mode

from dann.autodiff import frobenius_norm, gradients
from dann.gradients import binary_sign

SCALES = np.array([3.0, -4.0, 12.0], "float32")


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        (lambda x: ops.multiply(x, SCALES), np.ones((2, 3), "float32"), [13, 13]),
        (ops.zeros_like, INPUTS, np.zeros(3)),
        (binary_sign, EDGES, np.sqrt(EDGES_PASS.sum(axis=1))),
    ],
)
def test_orthogonal_rows_have_no_error(function, inputs, expected):
    norm, error = frobenius_norm(function, inputs, samples=2)
    assert_close(norm, expected)
    assert_close(error, np.zeros(len(expected)), atol=1e-5)


def test_estimate_and_error_match_the_formula():
    samples = 8
    norm, error = frobenius_norm(curved, INPUTS, samples=samples, seed=5)
    signs = 2 * np.random.default_rng(5).integers(0, 2, (samples, 3, 5)) - 1
    squares = (np.einsum("sbo,boi->sbi", signs, CURVED_JACOBIAN) ** 2).sum(axis=2)
    expected = np.sqrt(squares.mean(axis=0))
    assert_close(norm, expected, rtol=1e-4)
    assert_close(error, squares.std(axis=0, ddof=1) / np.sqrt(samples) / (2 * expected), rtol=1e-3)


@parametrize_mode
def test_norm_can_be_differentiated_by_the_weights(mode):
    # f = W^T x with orthogonal rows, so the estimate is the norm of W.
    layer = keras.layers.Dense(2, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), layer])
    layer.set_weights([np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])])

    def slope(x):
        norm = lambda w: ops.mean(frobenius_norm(model, x)[0])  # noqa: E731
        return ops.diag(gradients(norm, layer.weights)[0])

    assert_close(run_in_mode(slope, mode)(ops.convert_to_tensor(INPUTS[:, :3])), [0.6, 0.8])
