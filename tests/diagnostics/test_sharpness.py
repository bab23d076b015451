"""The Hessian of the label loss: closed forms, and differences."""

import numpy as np
import pytest
from linear_models import DATA, LABELS, SOURCE
from support.closed_forms import jacobian_by_differences, softmax
from support.networks import network

from dann.adaptation import DANN, MCC, PADA, WDGRL, SourceOnly
from dann.diagnostics import sharpness
from dann.diagnostics.spectrum import largest_eigenvalue, linear_operator


def test_of_a_quadratic_loss_the_hessian_is_the_second_moment_of_the_features():
    backbone = network((3, 4), "backbone")
    backbone.trainable = False
    model = SourceOnly(backbone, label_head=network((4, 1), "label_head"))
    model.compile("sgd", loss="mse")
    features = SOURCE @ np.array(backbone.layers[-1].kernel)
    hessian = 2 * features.T.astype(float) @ features / len(features)
    found = sharpness(model, ({**DATA[0]}, LABELS.astype("float32")), samples=200)
    assert found["sharpness/top_eigenvalue"] == pytest.approx(
        np.linalg.eigvalsh(hessian)[-1], rel=1e-4
    )
    error = found["sharpness/trace_error"]
    assert 0 < error < 0.1 * np.trace(hessian)
    assert abs(found["sharpness/trace"] - np.trace(hessian)) < 4 * error


def test_of_a_deeper_network_it_is_that_of_central_differences():
    model = SourceOnly(
        network((3, 2), "backbone", "tanh"), label_head=network((2, 2), "label_head")
    )
    model.compile("sgd")

    def slope(flat):
        w, c = flat[:6].reshape(3, 2), flat[6:].reshape(2, 2)
        features = np.tanh(SOURCE @ w)
        residual = (softmax(features @ c) - np.eye(2)[LABELS]) / len(LABELS)
        of_w = SOURCE.T @ ((residual @ c.T) * (1 - features**2))
        return np.concatenate([of_w.ravel(), (features.T @ residual).ravel()])

    flat = np.concatenate([np.array(v, float).ravel() for v in model.trainable_variables])
    hessian = jacobian_by_differences(slope, flat)
    found = sharpness(model, DATA, samples=300)
    top = np.linalg.eigvalsh((hessian + hessian.T) / 2)[-1]
    assert found["sharpness/top_eigenvalue"] == pytest.approx(top, rel=1e-3)
    assert abs(found["sharpness/trace"] - np.trace(hessian)) < 4 * found["sharpness/trace_error"]


def test_of_more_weights_the_top_eigenvalue_is_found_without_the_hessian():
    """One layer of 100 weights, whose Hessian is the second moment again."""
    inputs = np.random.default_rng(0).normal(size=(30, 10)).astype("float32")
    model = SourceOnly(network((10, 10), "backbone"), label_head=network((10, 1), "label_head"))
    model.label_head.trainable = False
    model.compile("sgd", loss="mse")
    head = np.array(model.label_head.layers[-1].kernel, float)
    moment = 2 * inputs.T.astype(float) @ inputs / len(inputs)
    top = np.linalg.eigvalsh(moment)[-1] * np.sum(head**2)
    data = ({"source": inputs, "target": inputs}, np.zeros(30, "float32"))
    found = sharpness(model, data, samples=2)
    assert found["sharpness/top_eigenvalue"] == pytest.approx(top, rel=1e-3)


def test_of_more_weights_whose_loss_does_not_bend_it_is_zero():
    product = linear_operator(lambda w, v: [0.0 * v[0]], [np.ones(100, "float32")])
    assert largest_eigenvalue(product) == 0


def test_regularizers_belong_to_it():
    parts = network((3, 2), "backbone"), network((2, 2), "label_head")
    plain = SourceOnly(parts[0], label_head=parts[1])
    plain.compile("sgd")
    regular = DANN(parts[0], label_head=parts[1], regularizers=[MCC(weight=5.0)])
    regular.compile("sgd")
    tops = [sharpness(m, DATA)["sharpness/top_eigenvalue"] for m in (plain, regular)]
    assert abs(tops[1] - tops[0]) > 0.01 * abs(tops[0])


def test_the_weights_of_classes_belong_to_it():
    """The Hessian of a weighted cross-entropy in the label head's kernel, on paper."""
    backbone = network((3, 4), "backbone")
    backbone.trainable = False
    model = PADA(backbone, label_head=network((4, 2), "label_head"))
    model.class_weights.assign([1.0, 0.25])
    model.compile("sgd")
    features = (SOURCE @ np.array(backbone.layers[-1].kernel)).astype(float)
    chances = softmax(features @ np.array(model.label_head.layers[-1].kernel, float))
    weights = np.array([1.0, 0.25])[LABELS]
    hessian = sum(
        w * np.kron(np.outer(f, f), np.diag(p) - np.outer(p, p))
        for w, f, p in zip(weights, features, chances, strict=True)
    ) / len(LABELS)
    found = sharpness(model, DATA, samples=2)
    assert found["sharpness/top_eigenvalue"] == pytest.approx(
        np.linalg.eigvalsh(hessian)[-1], rel=1e-4
    )
    assert model.class_weights.numpy().tolist() == [1.0, 0.25]


@pytest.mark.parametrize("step", [0, 3, 4])
def test_a_critic_that_is_trained_more_often_does_not_close_it(step):
    """The label loss of `WDGRL` is that of `SourceOnly`; most of its steps give it no gradient."""
    parts = network((3, 2), "backbone"), network((2, 2), "label_head")
    wdgrl, plain = (
        WDGRL(parts[0], label_head=parts[1], seed=1),
        SourceOnly(parts[0], label_head=parts[1]),
    )
    wdgrl.reversal.step.assign(step)
    tops = []
    for model in (wdgrl, plain):
        model.compile("sgd")
        tops.append(sharpness(model, DATA, samples=2)["sharpness/top_eigenvalue"])
    assert tops[0] == pytest.approx(tops[1], rel=1e-4)
    assert tops[1] > 0
