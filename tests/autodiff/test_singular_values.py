"""Singular values without the Jacobian, against those of the matrix itself."""

import keras
import numpy as np
import pytest
from keras import ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, close, curved
from support.modes import parametrize_mode, run_in_mode

from dann.autodiff import gradients, singular_values
from dann.gradients import binary_sign

RNG = np.random.default_rng(0)


def rotated(spectrum, rows, columns):
    """A matrix with these singular values."""
    left, _ = np.linalg.qr(RNG.normal(size=(rows, len(spectrum))))
    right, _ = np.linalg.qr(RNG.normal(size=(columns, len(spectrum))))
    return left @ np.diag(spectrum) @ right.T


def times(matrix):
    weights = ops.convert_to_tensor(matrix.T.astype("float32"))
    return lambda x: ops.matmul(x, weights)


SPECTRUM = np.array([7.0, 5.0, 4.0, 1.0, 0.5, 0.01])
REPEATED = np.array([3.0, 3.0, 3.0, 2.0, 2.0, 1.0, 0.0, 0.0])
ONE_ZERO = np.array([[0.0, 0.0], [1.0, 2.0]], "float32")


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        (times(rotated(SPECTRUM, 6, 9)), np.zeros((2, 9), "float32"), [SPECTRUM] * 2),
        (times(rotated(SPECTRUM, 9, 6)), np.zeros((2, 6), "float32"), [SPECTRUM] * 2),
        (times(rotated(REPEATED, 8, 8)), np.zeros((1, 8), "float32"), [REPEATED]),
        (lambda x: -2.0 * x, np.zeros((2, 5), "float32"), np.full((2, 5), 2.0)),
        (curved, INPUTS, np.linalg.svd(CURVED_JACOBIAN, compute_uv=False)),
        (lambda x: x**2, ONE_ZERO, [[0, 0], [4, 2]]),
        (lambda x: 3.0 * binary_sign(x), EDGES, 3 * -np.sort(-EDGES_PASS, axis=1)),
    ],
)
def test_as_many_as_the_rank_are_exact(function, inputs, expected):
    close(singular_values(function, inputs, k=len(expected[0])), expected, 2e-5, 1e-5)


def test_the_largest_value_converges_first_and_from_below():
    spectrum = 100 * 0.9 ** np.arange(60)
    function, zeros = times(rotated(spectrum, 60, 80)), np.zeros((1, 80), "float32")
    shares = [
        ops.convert_to_numpy(singular_values(function, zeros, k=5, iterations=n)[0]) / spectrum[:5]
        for n in (6, 12, 24)
    ]
    assert np.max(shares) < 1 + 1e-5
    assert shares[0][0] > 0.98
    assert shares[0].min() < shares[1].min() < shares[2].min()
    assert shares[2].min() > 1 - 1e-4
    close(singular_values(function, zeros, k=5)[0], spectrum[:5], rtol=1e-3)


@pytest.mark.parametrize(("rows", "columns"), [(120, 90), (90, 120)])
def test_small_values_beside_large_ones_are_found(rows, columns):
    # The vectors lose their orthogonality here unless it is restored twice.
    spectrum = np.geomspace(1.0, 1e-7, 30)
    function, zeros = times(rotated(spectrum, rows, columns)), np.zeros((1, columns), "float32")
    for iterations in (None, 90):
        close(singular_values(function, zeros, k=20, iterations=iterations)[0], spectrum[:20], 0)


@pytest.mark.tensorflow
def test_double_precision_is_kept():
    matrix = rotated(np.array([3.0, 2.0, 1.0]), 50, 60)
    values = singular_values(lambda x: ops.matmul(x, matrix.T), np.zeros((1, 60)), k=5)
    close(values[0], [3, 2, 1, 0, 0], atol=1e-14)


@pytest.mark.parametrize("scale", [1e-20, 1e18])
def test_very_small_and_very_large_values_neither_vanish_nor_overflow(scale):
    spectrum = scale * 0.9 ** np.arange(60)
    function = times(rotated(spectrum, 60, 80))
    close(singular_values(function, np.zeros((1, 80), "float32"), k=5)[0], spectrum[:5], atol=0)


def test_the_seed_decides_the_start():
    function = times(rotated(0.8 ** np.arange(20), 20, 20))
    zeros = np.zeros((1, 20), "float32")
    first, same, other = (
        ops.convert_to_numpy(singular_values(function, zeros, k=2, iterations=3, seed=seed))
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-4


@parametrize_mode
def test_their_derivative_is_that_of_the_matrix_they_come_from(mode):
    """`dsum(s)/dW` is `U V^T`, of the leading vectors; also in a loss of one's own."""
    shape = (3, 4) if mode == "graph" else (4, 3)
    weights = RNG.normal(size=shape).astype("float32")
    left, _, right = np.linalg.svd(weights, full_matrices=False)

    def total(kernel):
        function = lambda x: ops.matmul(x, kernel)  # noqa: E731
        return ops.sum(singular_values(function, np.zeros((1, shape[0]), "float32"), k=2))

    slope = run_in_mode(lambda kernel: gradients(total, [kernel])[0], mode)
    close(slope(ops.convert_to_tensor(weights)), left[:, :2] @ right[:2], 1e-4, 1e-5)


@pytest.mark.parametrize("by_weights", [False, True])
def test_their_derivative_is_the_slope_of_their_values(by_weights):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="tanh")])
    model.set_weights([RNG.normal(size=(4, 3)), np.zeros(3)])
    kernel, x = model.weights[0], INPUTS.copy()

    def total(x):
        return ops.sum(singular_values(model, x, 2))

    if by_weights:
        (slope,), place = gradients(lambda kernel: total(x), [kernel]), ops.convert_to_numpy(kernel)
        values = lambda w: [model.layers[-1].kernel.assign(w), total(x)][1]  # noqa: E731
    else:
        (slope,), place, values = gradients(total, [x]), x, total
    slope = ops.convert_to_numpy(slope)
    length = np.linalg.norm(slope)
    moved = [values(place + sign * 1e-2 * slope / length) for sign in (1, -1)]
    ahead, behind = map(ops.convert_to_numpy, moved)
    assert length == pytest.approx((ahead - behind) / 2e-2, rel=5e-3)


def test_those_of_attention_are_those_of_finite_differences():
    inputs = keras.Input((3, 2))
    model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4)(inputs, inputs))
    for weight in model.weights:
        weight.assign(RNG.normal(size=weight.shape))
    x, step = RNG.normal(size=(1, 3, 2)).astype("float32"), 0.01
    moves = step * np.eye(6, dtype="float32").reshape(6, 3, 2)
    ahead, behind = (ops.convert_to_numpy(model(x + sign * moves)) for sign in (1, -1))
    expected = np.linalg.svd((ahead - behind).reshape(6, 6) / (2 * step), compute_uv=False)
    close(singular_values(model, x, k=6)[0], expected, rtol=0.01, atol=0.01)
