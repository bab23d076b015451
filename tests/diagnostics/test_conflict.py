"""The gradients of both losses on the backbone, against NumPy."""

import itertools

import keras
import numpy as np
import pytest
from support.closed_forms import softmax
from support.formulas import linear_dann, linear_model
from support.networks import linear_parts, read_weights
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


def by_hand(weights):
    """Gradients of `A_1` and `A_2`: of the label loss, and of the reversed domain loss."""
    a1, a2, b, w = weights
    features = ALL_INPUTS @ a1 @ a2
    label = np.zeros_like(features)
    label[:5] = (softmax(features[:5] @ b) - np.eye(3)[LABELS]) / 5 @ b.T
    domain = np.repeat([[0.0], [1.0]], 5, axis=0)
    reverse = -STRENGTH * (1 / (1 + np.exp(-features @ w)) - domain) / 10 @ w.T
    return [
        [ALL_INPUTS.T @ slope @ a2.T, (ALL_INPUTS @ a1).T @ slope] for slope in (label, reverse)
    ]


def cosine(a, b):
    a, b = (np.concatenate([x.ravel() for x in parts]) for parts in (a, b))
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_what_is_not_finite_has_no_ratio():
    model = deep_dann()
    model.backbone.set_weights([np.full(w.shape, np.nan) for w in model.backbone.weights])
    assert np.isnan(gradient_conflict(model, DATA, mode="eager")["conflict/ratio"])


@pytest.mark.parametrize(
    ("mode", "joint_forward"),
    [*itertools.product(("eager", "graph"), (True, False)), ("xla", True)],
)
def test_norms_and_cosines_are_those_of_numpy(mode, joint_forward):
    model = deep_dann(joint_forward=joint_forward)
    label, domain = by_hand(read_weights(model))
    found = gradient_conflict(model, DATA, mode=mode)
    sizes = [np.sqrt(sum(np.sum(x**2) for x in part)) for part in (label, domain)]
    assert found["conflict/label_norm"] == pytest.approx(sizes[0], rel=1e-5)
    assert found["conflict/domain_norm"] == pytest.approx(sizes[1], rel=1e-5)
    assert found["conflict/ratio"] == pytest.approx(sizes[1] / sizes[0], rel=1e-5)
    assert found["conflict/cosine"] == pytest.approx(cosine(label, domain), abs=1e-5)


def test_dropout_draws_the_same_in_all_passes():
    """With both losses the same but for the sign, the gradients must be opposite."""

    class OneLoss(dann.DANN):
        def method_losses(self, batch, reversal, training):
            terms = super().method_losses(batch, reversal, training)
            return {**terms, "label/loss": terms["domain/loss"]}

    inputs = keras.Input((3,))
    dropped = keras.layers.Dropout(0.5)(keras.layers.Dense(4)(inputs))
    model = linear_model(OneLoss, backbone=keras.Model(inputs, dropped))
    model.compile("sgd")
    assert gradient_conflict(model, DATA, mode="eager")["conflict/cosine"] == pytest.approx(1)


def frozen():
    model = deep_dann()
    model.backbone.trainable = False
    return model


@pytest.mark.parametrize("make", [lambda: dann.SourceOnly(**linear_parts()), frozen])
def test_a_model_without_two_losses_on_its_backbone_is_refused(make):
    model = make()
    model.compile("sgd")
    with pytest.raises(ValueError, match="two losses"):
        gradient_conflict(model, DATA)


def test_what_layers_add_counts_once_whenever_it_is_measured():
    found = {}
    for joint_forward in (True, False):
        keras.utils.set_random_seed(0)
        layer = keras.layers.Dense(4, activity_regularizer="l2")
        backbone = keras.Sequential([keras.Input((3,)), layer])
        model = dann.DANN(backbone, 3, strength=STRENGTH, joint_forward=joint_forward)
        model.compile("sgd")
        found_so = [gradient_conflict(model, DATA, mode="eager") for _ in range(20)]
        norms = [one["conflict/label_norm"] for one in found_so]
        assert norms == pytest.approx([norms[0]] * 20)
        found[joint_forward] = norms[0]
    assert found[False] == pytest.approx(found[True])
