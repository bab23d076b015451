"""DALN's loss and gradients, against NumPy on a linear network."""

import numpy as np
import pytest
from keras import ops
from support.closed_forms import central_differences, softmax
from support.networks import linear_parts, read_weights, with_random_weights
from support.pair import SOURCE, STRENGTH, TARGET
from support.training_step import MODES, check_step, label_loss

from dann.adaptation import DALN
from dann.adaptation.daln import nuclear_norm
from dann.autodiff import gradients as compute_gradients


def linear_daln(**kwargs):
    """f = x A, c = f B, without biases."""
    model = DALN(**linear_parts(), strength=STRENGTH, **kwargs)
    # With these weights the two norms differ by 0.5. If they were nearly equal, rounding errors
    # would dominate their difference.
    return with_random_weights(model, seed=8)


def nuclear_norm_by_svd(matrix):
    return np.linalg.svd(matrix, compute_uv=False).sum()


def discrepancy(a, b):
    return (
        nuclear_norm_by_svd(softmax(SOURCE @ a @ b)) - nuclear_norm_by_svd(softmax(TARGET @ a @ b))
    ) / 5


@pytest.mark.parametrize("mode", MODES)
def test_daln_loss_and_gradients_match_the_formula(mode):
    model = linear_daln()
    a, b = read_weights(model)
    label_a, label_b = central_differences(label_loss, [a, b])
    discrepancy_a, discrepancy_b = central_differences(discrepancy, [a, b])
    gradients = [label_a + STRENGTH * discrepancy_a, label_b - discrepancy_b]
    terms = {"label/loss": label_loss(a, b), "discrepancy/loss": -discrepancy(a, b)}
    logs = check_step(model, mode, terms, gradients)
    assert logs["strength"] == pytest.approx(STRENGTH)


RNG = np.random.default_rng(5)
ROTATION = (
    np.linalg.qr(RNG.normal(size=(6, 6)))[0][:, :3] @ np.linalg.qr(RNG.normal(size=(3, 3)))[0]
)
MATRICES = {
    "tall": RNG.normal(size=(6, 3)),
    "square": RNG.normal(size=(4, 4)),
    "equal_singular_values": 2 * ROTATION,
    "predictions": softmax(3 * RNG.normal(size=(8, 5))),
}


@pytest.mark.parametrize("name", MATRICES)
def test_nuclear_norm_gradient_matches_finite_differences(name):
    matrix = np.array(MATRICES[name])
    tensor = ops.convert_to_tensor(matrix, "float32")
    assert float(nuclear_norm(tensor)) == pytest.approx(nuclear_norm_by_svd(matrix), rel=1e-5)
    (slope,) = compute_gradients(nuclear_norm, [tensor])
    (expected,) = central_differences(nuclear_norm_by_svd, [matrix])
    np.testing.assert_allclose(ops.convert_to_numpy(slope), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_deficient_gradient_is_least_norm_subgradient(rank):
    u, v = np.array([[0.6], [0.8], [0.0]]), np.array([[0.8, -0.6]])
    tensor = ops.convert_to_tensor(rank * 5 * u @ v, "float32")
    assert float(nuclear_norm(tensor)) == pytest.approx(5 * rank, rel=1e-5)
    (slope,) = compute_gradients(nuclear_norm, [tensor])
    np.testing.assert_allclose(ops.convert_to_numpy(slope), rank * u @ v, atol=1e-5)
