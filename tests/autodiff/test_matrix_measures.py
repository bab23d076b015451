"""Singular values and norms without the Jacobian, against those of the matrix."""

import keras
import numpy as np
import pytest
from keras import ops
from maps import CURVED_JACOBIAN, EDGES, EDGES_PASS, INPUTS, assert_close, curved, linear
from support.differentiate import parametrize_mode, run_in_mode

from dann.autodiff import batch_jacobian, frobenius_norm, gradients, jacobian, jvp, singular_values
from dann.autodiff import singular_values as singular
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


def test_derivative_by_inputs_matches_differences():
    def total(x):
        return ops.sum(singular_values(curved, x, 2))

    slope = ops.convert_to_numpy(gradients(total, [INPUTS])[0])
    length = np.linalg.norm(slope)
    moved = [total(INPUTS + sign * 1e-2 * slope / length) for sign in (1, -1)]
    ahead, behind = map(ops.convert_to_numpy, moved)
    assert length == pytest.approx((ahead - behind) / 2e-2, rel=5e-3)


def test_derivative_by_weights_of_a_model_matches_the_formula():
    """`ds/dW` of the sum of all singular values is `U V^T`."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, use_bias=False)])
    total = lambda w: ops.sum(singular_values(model, INPUTS[:1], 3))  # noqa: E731
    u, _, v = np.linalg.svd(ops.convert_to_numpy(model.weights[0]), full_matrices=False)
    assert_close(gradients(total, model.weights)[0], u @ v, 1e-4, 1e-5)


LENGTHS = np.array([3.0, -4.0, 12.0], "float32")


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        (lambda x: ops.multiply(x, LENGTHS), np.ones((2, 3), "float32"), [13, 13]),
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


X, U, INTEGERS = INPUTS, np.ones((3, 5), "float32"), INPUTS.astype("int32")


def make_sum_model():
    inputs = [keras.Input(X.shape[1:]), keras.Input(X.shape[1:])]
    return keras.Model(inputs, keras.layers.Add()(inputs))


REFUSALS = [
    (lambda: gradients(ops.square, [X], [X, X]), r"`grad_ys` to contain .*\[\(\(3, 4\), 'float32'"),
    (lambda: gradients(ops.square, [X], X), r"`grad_ys` to be a list .*`\[x\]`. Received: ndarray"),
    (lambda: gradients(ops.square, [X], stop_gradients=[1]), "Received: stop_gradients=1"),
    (lambda: gradients(ops.sum, [INTEGERS]), r"`xs\[0\]` to be floating.*dtype=int32"),
    (lambda: gradients(ops.argmax, [X]), r"`function\(\*xs\)\[0\]` to be floating"),
    (lambda: jvp(linear, [X], [U]), r"`vs` to contain .*\(3, 4\).* Received: .*\(3, 5\)"),
    (lambda: jacobian(lambda x: {"a": x, "b": x}, [X]), "one output. Received: 2 outputs"),
    # TensorFlow would silently return 0.
    (lambda: gradients(np.sin, [X]), "`keras.ops.sin|NumPy|numpy|Tracer"),
    # The rows would silently count as arguments.
    (lambda: gradients(ops.square, X[:1]), "`xs` to be a list of tensors.*Received: ndarray"),
    (lambda: jacobian(linear, {"a": X}), "one tensor, array or variable. Received: dict"),
    (lambda: batch_jacobian(make_sum_model(), [X, X]), "one input. Received: 2 inputs"),
    (lambda: batch_jacobian(ops.sum, X), r"one by one .* shape \(\)"),
    (lambda: frobenius_norm(curved, X, samples=1), "`samples` to be an integer >= 2.*samples=1"),
    (lambda: singular(curved, X, k=5), "from 1 to 4, the largest rank .* Received: k=5"),
    (lambda: singular(curved, X, k=3, iterations=2), "`iterations` to be an integer >= 3"),
]


@pytest.mark.parametrize(("call", "words"), REFUSALS, ids=[words for _, words in REFUSALS])
def test_refusal_names_the_argument(call, words):
    with pytest.raises((RuntimeError, TypeError, ValueError), match=words):
        call()
