"""Straight-through estimator and reversal combined, against NumPy."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import sign, softmax
from support.formulas import linear_dann
from support.networks import read_weights
from support.pair import ALL_INPUTS, LABELS, STRENGTH
from support.training_step import MODES, step

from dann.layers import BinaryDense


def two_binary_layers(implementation):
    """Returns `x -> sign(x sign(K1)) sign(K2)` without clipping of the latent kernels."""
    settings = {"use_bias": False, "clip": False, "implementation": implementation}
    layers = BinaryDense(4, input_estimator=None, **settings), BinaryDense(4, **settings)
    return keras.Sequential([keras.Input((3,)), *layers])


def compute_gradients(weights, strength):
    """Returns the gradients of f = sign(x sign(K1)) sign(K2), c = f B, d = f w."""
    first, second, b, w = weights
    hidden = ALL_INPUTS @ sign(first)
    features = sign(hidden) @ sign(second)
    label_slope = (softmax(features[:5] @ b) - np.eye(3)[LABELS]) / 5
    sigmoid = 1 / (1 + np.exp(-features @ w))
    domain_slope = (sigmoid - np.repeat([[0.0], [1.0]], 5, axis=0)) / 10
    label_part = np.concatenate([label_slope @ b.T, np.zeros((5, 4))])
    feature_slope = label_part - strength * domain_slope @ w.T
    hidden_slope = (np.abs(hidden) <= 1) * (feature_slope @ sign(second).T)
    masks = [np.abs(kernel) <= 1 for kernel in (first, second)]
    assert all(0 < mask.mean() < 1 for mask in (*masks, np.abs(hidden) <= 1))
    return [
        masks[0] * (ALL_INPUTS.T @ hidden_slope),
        masks[1] * (sign(hidden).T @ feature_slope),
        features[:5].T @ label_slope,
        features.T @ domain_slope,
    ]


@pytest.mark.parametrize("implementation", ["override", "stop_gradient"])
@pytest.mark.parametrize("mode", MODES)
def test_latent_kernel_gradients_match_the_formula(mode, implementation):
    model = linear_dann(backbone=two_binary_layers(implementation))
    gradients = compute_gradients(read_weights(model), STRENGTH)
    _, slopes = step(model, mode)
    assert_all_close(slopes, gradients)
