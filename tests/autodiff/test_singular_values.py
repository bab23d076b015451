"""Singular values without the Jacobian against the singular values of the matrix."""

import keras
import numpy as np
import pytest
from keras import ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, assert_close, curved
from support.modes import parametrize_mode, run_in_mode

from dann.autodiff import gradients, singular_values
from dann.gradients import binary_sign

RNG = np.random.default_rng(0)


def make_matrix(spectrum, rows, columns):
    """Returns a random matrix with these singular values."""
    u, _ = np.linalg.qr(RNG.normal(size=(rows, len(spectrum))))
    v, _ = np.linalg.qr(RNG.normal(size=(columns, len(spectrum))))
    return u @ np.diag(spectrum) @ v.T


def multiply_by(matrix):
    weights = ops.convert_to_tensor(matrix.T.astype("float32"))
    return lambda x: ops.matmul(x, weights)


SPECTRUM = np.array([7.0, 5.0, 4.0, 1.0, 0.5, 0.01])
REPEATED = np.array([3.0, 3.0, 3.0, 2.0, 2.0, 1.0, 0.0, 0.0])
ONE_ZERO = np.array([[0.0, 0.0], [1.0, 2.0]], "float32")


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        (multiply_by(make_matrix(SPECTRUM, 6, 9)), np.zeros((2, 9), "float32"), [SPECTRUM] * 2),
        (multiply_by(make_matrix(SPECTRUM, 9, 6)), np.zeros((2, 6), "float32"), [SPECTRUM] * 2),
        (multiply_by(make_matrix(REPEATED, 8, 8)), np.zeros((1, 8), "float32"), [REPEATED]),
        (lambda x: -2.0 * x, np.zeros((2, 5), "float32"), np.full((2, 5), 2.0)),
        (curved, INPUTS, np.linalg.svd(CURVED_JACOBIAN, compute_uv=False)),
        (lambda x: x**2, ONE_ZERO, [[0, 0], [4, 2]]),
        (lambda x: 3.0 * binary_sign(x), EDGES, 3 * -np.sort(-EDGES_PASS, axis=1)),
    ],
)
def test_values_are_exact_at_full_rank(function, inputs, expected):
    assert_close(singular_values(function, inputs, k=len(expected[0])), expected, 2e-5, 1e-5)


@pytest.mark.tensorflow
def test_largest_value_converges_first_from_below():
    spectrum = 100 * 0.9 ** np.arange(60)
    function, zeros = multiply_by(make_matrix(spectrum, 60, 80)), np.zeros((1, 80), "float32")
    ratios = [
        ops.convert_to_numpy(singular_values(function, zeros, k=5, iterations=n)[0]) / spectrum[:5]
        for n in (6, 12, 24)
    ]
    assert np.max(ratios) < 1 + 1e-5
    assert ratios[0][0] > 0.98
    assert ratios[0].min() < ratios[1].min() < ratios[2].min()
    assert ratios[2].min() > 1 - 1e-4
    assert_close(singular_values(function, zeros, k=5)[0], spectrum[:5], rtol=1e-3)


@pytest.mark.tensorflow
@pytest.mark.parametrize(("rows", "columns"), [(120, 90), (90, 120)])
def test_small_values_next_to_large_values(rows, columns):
    # The vectors lose their orthogonality unless they are orthogonalized twice.
    spectrum = np.geomspace(1.0, 1e-7, 30)
    function = multiply_by(make_matrix(spectrum, rows, columns))
    for iterations in (None, 90):
        values = singular_values(function, np.zeros((1, columns), "float32"), 20, iterations)
        assert_close(values[0], spectrum[:20], 0)


@pytest.mark.tensorflow
def test_double_precision_stays_double():
    matrix = make_matrix(np.array([3.0, 2.0, 1.0]), 50, 60)
    values = singular_values(lambda x: ops.matmul(x, matrix.T), np.zeros((1, 60)), k=5)
    assert_close(values[0], [3, 2, 1, 0, 0], atol=1e-14)


@pytest.mark.parametrize("scale", [1e-20, 1e18])
def test_extreme_values_neither_underflow_nor_overflow(scale):
    spectrum = scale * 0.9 ** np.arange(60)
    function = multiply_by(make_matrix(spectrum, 60, 80))
    values = singular_values(function, np.zeros((1, 80), "float32"), k=5)
    assert_close(values[0], spectrum[:5], atol=0)


@parametrize_mode
def test_derivative_by_the_matrix_matches_the_formula(mode):
    """`dsum(s)/dW` is `U V^T` with the leading singular vectors."""
    shape = (3, 4) if mode == "graph" else (4, 3)
    weights = RNG.normal(size=shape).astype("float32")
    u, _, v = np.linalg.svd(weights, full_matrices=False)

    def total(kernel):
        function = lambda x: ops.matmul(x, kernel)  # noqa: E731
        return ops.sum(singular_values(function, np.zeros((1, shape[0]), "float32"), k=2))

    slope = run_in_mode(lambda kernel: gradients(total, [kernel])[0], mode)
    assert_close(slope(ops.convert_to_tensor(weights)), u[:, :2] @ v[:2], 1e-4, 1e-5)


@pytest.mark.parametrize("by_weights", [False, True])
def test_derivative_matches_differences(by_weights):
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
