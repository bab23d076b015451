"""The gradients of both losses on the backbone, against NumPy."""

import itertools

import keras
import numpy as np
import pytest
from support.closed_forms import softmax
from support.formulas import linear_dann, linear_model
from support.networks import read_weights
from support.pair import ALL_INPUTS, LABELS, PAIR, STRENGTH

import dann
from dann.diagnostics import gradient_conflict

DATA = PAIR, LABELS


def deep_dann(**kwargs):
    """Features `x A_1 A_2`."""
    inputs = keras.Input((3,))
    first = keras.layers.Dense(5, use_bias=False, name="first")(inputs)
    outputs = keras.layers.Dense(4, use_bias=False, name="second")(first)
    model = linear_dann(backbone=keras.Model(inputs, outputs), **kwargs)
    model.compile("sgd")
    return model


def slopes_by_hand(weights):
    """Gradients of `A_1` and `A_2`, flat: of the label loss, and of the reversed domain loss."""
    a1, a2, b, w = weights
    features = ALL_INPUTS @ a1 @ a2
    label = np.zeros_like(features)
    label[:5] = (softmax(features[:5] @ b) - np.eye(3)[LABELS]) / 5 @ b.T
    domain = np.repeat([[0.0], [1.0]], 5, axis=0)
    reverse = -STRENGTH * (1 / (1 + np.exp(-features @ w)) - domain) / 10 @ w.T
    return [
        np.concatenate(
            [np.ravel(ALL_INPUTS.T @ slope @ a2.T), np.ravel((ALL_INPUTS @ a1).T @ slope)]
        )
        for slope in (label, reverse)
    ]


@pytest.mark.parametrize(
    ("mode", "joint_forward"),
    [*itertools.product(("eager", "graph"), (True, False)), ("xla", True)],
)
def test_norms_and_cosine_match_numpy(mode, joint_forward):
    model = deep_dann(joint_forward=joint_forward)
    label, domain = slopes_by_hand(read_weights(model))
    sizes = np.linalg.norm(label), np.linalg.norm(domain)
    expected = {
        "conflict/label_norm": sizes[0],
        "conflict/domain_norm": sizes[1],
        "conflict/ratio": sizes[1] / sizes[0],
        "conflict/cosine": label @ domain / sizes[0] / sizes[1],
    }
    assert gradient_conflict(model, DATA, mode=mode) == pytest.approx(expected, rel=1e-4)


class EqualLosses(dann.DANN):
    def method_losses(self, batch, reversal, training):
        terms = super().method_losses(batch, reversal, training)
        return {**terms, "label/loss": terms["domain/loss"]}


def test_dropout_draws_the_same_mask_for_both_losses():
    """For equal losses the gradients are parallel only if the masks are equal."""
    inputs = keras.Input((3,))
    dropped = keras.layers.Dropout(0.5)(keras.layers.Dense(4)(inputs))
    model = linear_model(EqualLosses, backbone=keras.Model(inputs, dropped))
    model.compile("sgd")
    assert gradient_conflict(model, DATA, mode="eager")["conflict/cosine"] == pytest.approx(1)
