"""Overridden gradients that are not linear in the upstream gradient."""

import keras
import numpy as np
import pytest
from keras import ops
from support.modes import parametrize_mode, run_in_mode

from dann.autodiff import batch_jacobian, frobenius_norm, singular_values
from dann.gradients import override_gradient

X = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]], "float32")
WEIGHTS = np.random.default_rng(1).normal(size=(2, 12)).astype("float32")


def _guide(upstream, x):
    return ops.where((x > 0) & (upstream > 0), upstream, ops.zeros_like(upstream))


def _clip_norm(upstream, x):
    return upstream / ops.maximum(1.0, ops.norm(upstream, axis=-1, keepdims=True))


CLIPPED_ROWS = WEIGHTS.T / np.maximum(1.0, np.linalg.norm(WEIGHTS.T, axis=1, keepdims=True))
# By name: forward, backward, and the Jacobian of each example, whose rows are backward passes.
PASSES = {
    "guided": (ops.relu, _guide, np.maximum(WEIGHTS.T, 0) * (X > 0)[:, None]),
    "clipped": (
        lambda x: x,
        lambda upstream, x: ops.clip(upstream, -1.0, 1.0),
        np.tile(np.clip(WEIGHTS.T, -1, 1), (3, 1, 1)),
    ),
    "clipped norm": (lambda x: x, _clip_norm, np.tile(CLIPPED_ROWS, (3, 1, 1))),
}
if keras.backend.backend() != "jax":  # JAX does not detect an added constant
    SHIFTED_ROWS = np.tile(WEIGHTS.T + 1e-3, (3, 1, 1))
    PASSES["added constant"] = lambda x: x, lambda upstream, x: upstream + 1e-3, SHIFTED_ROWS


def make(name):
    function = override_gradient(*PASSES[name][:2])
    return lambda x: ops.matmul(function(x), ops.convert_to_tensor(WEIGHTS))


@parametrize_mode
@pytest.mark.parametrize("name", PASSES)
def test_rows_are_backward_passes_for_many_outputs(name, mode):
    function = make(name)
    result = run_in_mode(lambda x: batch_jacobian(function, x), mode)(ops.convert_to_tensor(X))
    np.testing.assert_allclose(ops.convert_to_numpy(result), PASSES[name][2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "measure", [lambda f: singular_values(f, X, 2), lambda f: frobenius_norm(f, X)]
)
@pytest.mark.parametrize("name", PASSES)
def test_measures_of_a_matrix_are_refused(name, measure):
    with pytest.raises(ValueError, match="linear in the upstream gradient.*batch_jacobian"):
        measure(make(name))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_clipping_is_detected_for_equal_weights(scale):
    function = override_gradient(lambda x: x, _clip_norm)
    weights = ops.full((2, 12), scale)

    def outputs(x):
        return ops.matmul(function(x), weights)

    rows = ops.convert_to_numpy(batch_jacobian(outputs, X))
    np.testing.assert_allclose(rows, np.full((3, 12, 2), 0.5**0.5), rtol=1e-5)
    with pytest.raises(ValueError, match="linear in the upstream gradient"):
        singular_values(outputs, X, 1)


@pytest.mark.parametrize("scale", [1.0, -0.5])
def test_linear_override_keeps_its_singular_values(scale):
    function = override_gradient(lambda x: x, lambda upstream, x: scale * upstream)
    values = singular_values(
        lambda x: ops.matmul(function(x), ops.convert_to_tensor(WEIGHTS)), X, 2
    )
    expected = abs(scale) * np.linalg.svd(WEIGHTS, compute_uv=False)
    np.testing.assert_allclose(ops.convert_to_numpy(values), np.tile(expected, (3, 1)), rtol=1e-4)
