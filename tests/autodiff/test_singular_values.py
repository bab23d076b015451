"""Singular values without the Jacobian, against those of the matrix itself."""

import keras
import numpy as np
import pytest
from keras import ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, curved

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
    values = singular_values(function, inputs, k=len(expected[0]))
    np.testing.assert_allclose(values, expected, rtol=2e-5, atol=1e-5)


def test_the_largest_value_converges_first_and_from_below():
    spectrum = 100 * 0.9 ** np.arange(60)
    function, zeros = times(rotated(spectrum, 60, 80)), np.zeros((1, 80), "float32")
    errors = []
    for iterations in (6, 12, 24):
        values = singular_values(function, zeros, k=5, iterations=iterations)[0]
        assert np.all(np.asarray(values) < spectrum[:5] * (1 + 1e-5))
        errors.append(np.abs(np.asarray(values) / spectrum[:5] - 1))
    assert errors[0][0] < 0.02
    assert errors[0].max() > errors[1].max() > errors[2].max()
    assert errors[2].max() < 1e-4
    default = singular_values(function, zeros, k=5)[0]
    np.testing.assert_allclose(default, spectrum[:5], rtol=1e-3)


@pytest.mark.parametrize(("rows", "columns"), [(120, 90), (90, 120)])
def test_small_values_beside_large_ones_are_found(rows, columns):
    # The vectors lose their orthogonality here unless it is restored twice.
    spectrum = np.geomspace(1.0, 1e-7, 30)
    function, zeros = times(rotated(spectrum, rows, columns)), np.zeros((1, columns), "float32")
    for iterations in (None, 90):
        values = singular_values(function, zeros, k=20, iterations=iterations)[0]
        np.testing.assert_allclose(values, spectrum[:20], rtol=0, atol=1e-6)


def test_double_precision_is_kept():
    if keras.backend.backend() == "jax":
        pytest.skip("JAX computes in float32")
    matrix = rotated(np.array([3.0, 2.0, 1.0]), 50, 60)
    weights = ops.convert_to_tensor(matrix.T, dtype="float64")
    zeros = ops.zeros((1, 60), "float64")
    values = singular_values(lambda x: ops.einsum("bi,io->bo", x, weights), zeros, k=5)
    np.testing.assert_allclose(ops.convert_to_numpy(values)[0], [3, 2, 1, 0, 0], atol=1e-14)


@pytest.mark.parametrize("scale", [1e-20, 1e18])
def test_very_small_and_very_large_values_neither_vanish_nor_overflow(scale):
    spectrum = scale * 0.9 ** np.arange(60)
    function = times(rotated(spectrum, 60, 80))
    values = singular_values(function, np.zeros((1, 80), "float32"), k=5)[0]
    np.testing.assert_allclose(
        ops.convert_to_numpy(values) / scale, spectrum[:5] / scale, rtol=1e-5
    )


def test_images_and_models_are_flattened():
    model = keras.Sequential([keras.Input((4, 4, 2)), keras.layers.Conv2D(3, 2)])
    kernel, _ = model.get_weights()
    matrix = np.zeros((3, 3, 3, 4, 4, 2))
    for row, column in np.ndindex(3, 3):
        window = slice(row, row + 2), slice(column, column + 2)
        matrix[row, column, :, *window] = kernel.transpose(3, 0, 1, 2)
    expected = np.linalg.svd(matrix.reshape(27, 32), compute_uv=False)[:5]
    images = RNG.normal(size=(2, 4, 4, 2)).astype("float32")
    np.testing.assert_allclose(singular_values(model, images, k=5), [expected] * 2, rtol=1e-4)


def test_the_seed_decides_the_start():
    function = times(rotated(0.8 ** np.arange(20), 20, 20))
    zeros = np.zeros((1, 20), "float32")
    values = [
        np.asarray(singular_values(function, zeros, k=2, iterations=3, seed=seed))
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(values[0], values[1])
    assert np.abs(values[0] - values[2]).max() > 1e-4


@pytest.mark.parametrize("inputs", ["x", "weights"])
def test_a_derivative_of_them_is_refused(inputs):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="tanh")])
    xs = [INPUTS] if inputs == "x" else model.weights
    # Each backend's own: TensorFlow's is a LookupError, JAX's a TypeError.
    with pytest.raises((LookupError, NotImplementedError, TypeError)):
        gradients(lambda *xs: singular_values(model, xs[0] if inputs == "x" else INPUTS, 1), xs)


def test_those_of_attention_are_those_of_finite_differences():
    inputs = keras.Input((3, 2))
    model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4)(inputs, inputs))
    for weight in model.weights:
        weight.assign(RNG.normal(size=weight.shape))
    x, step = RNG.normal(size=(1, 3, 2)).astype("float32"), 0.01
    moves = step * np.eye(6, dtype="float32").reshape(6, 3, 2)
    ahead, behind = (ops.convert_to_numpy(model(x + sign * moves)) for sign in (1, -1))
    expected = np.linalg.svd((ahead - behind).reshape(6, 6) / (2 * step), compute_uv=False)
    values = ops.convert_to_numpy(singular_values(model, x, k=6))
    np.testing.assert_allclose(values[0], expected, rtol=0.01, atol=0.01)
