"""The Hessian of the label loss against closed forms and differences."""

import numpy as np
import pytest
from linear_models import DATA, LABELS, SOURCE
from support.closed_forms import jacobian_by_differences, softmax
from support.networks import network

from dann.adaptation import SourceOnly
from dann.diagnostics import sharpness


def top_eigenvalue(model, data=DATA):
    return sharpness(model, data, samples=2)["sharpness/top_eigenvalue"]


def test_nonlinear_network_matches_central_differences():
    model = SourceOnly(
        network((3, 2), "backbone", "tanh"), label_head=network((2, 2), "label_head")
    )
    model.compile("sgd")

    def slope(flat):
        w, c = flat[:6].reshape(3, 2), flat[6:].reshape(2, 2)
        features = np.tanh(SOURCE @ w)
        residual = (softmax(features @ c) - np.eye(2)[LABELS]) / len(LABELS)
        w_slope = SOURCE.T @ ((residual @ c.T) * (1 - features**2))
        return np.concatenate([w_slope.ravel(), (features.T @ residual).ravel()])

    flat = np.concatenate([np.array(v, float).ravel() for v in model.trainable_variables])
    hessian = jacobian_by_differences(slope, flat)
    measurements = sharpness(model, DATA, samples=300)
    top = np.linalg.eigvalsh((hessian + hessian.T) / 2)[-1]
    assert measurements["sharpness/top_eigenvalue"] == pytest.approx(top, rel=1e-3)
    # Vectors of random signs: Var(z' H z) = 2 sum_{i != j} H_ij^2.
    variance = 2 * (np.sum(hessian**2) - np.sum(np.diag(hessian) ** 2))
    error = measurements["sharpness/trace_error"]
    assert error == pytest.approx(np.sqrt(variance / 300), rel=0.2)
    assert abs(measurements["sharpness/trace"] - np.trace(hessian)) < 4 * error


def test_many_weights_need_no_hessian():
    """One layer of 100 weights under a squared error: the second moment of the inputs."""
    inputs = np.random.default_rng(0).normal(size=(30, 10)).astype("float32")
    model = SourceOnly(network((10, 10), "backbone"), label_head=network((10, 1), "label_head"))
    model.label_head.trainable = False
    model.compile("sgd", loss="mse")
    head = np.array(model.label_head.layers[-1].kernel, float)
    moment = 2 * inputs.T.astype(float) @ inputs / len(inputs)
    expected = np.linalg.eigvalsh(moment)[-1] * np.sum(head**2)
    data = ({"source": inputs, "target": inputs}, np.zeros(30, "float32"))
    assert top_eigenvalue(model, data) == pytest.approx(expected, rel=1e-3)
