"""FDAL, MCD, MDD and DALN, whose heads are critics, against NumPy on a linear network."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from support.arrays import LABELS, PAIR, SOURCE, STRENGTH, TARGET
from support.closed_forms import central_differences, softmax
from support.networks import linear, linear_model, read_weights, with_random_weights
from support.training_step import MODES, check_adversarial_step, check_step, label_loss, step

from dann.adaptation import DALN, FDAL, MCD, MDD
from dann.adaptation.daln import nuclear_norm
from dann.adaptation.fdal import DIVERGENCES
from dann.autodiff import gradients as compute_gradients

ROWS = np.arange(5)
HEADS = {MCD: "second_head", MDD: "adversarial_head", FDAL: "critic"}


# The activation g(v) and the conjugate phi*(t), as in the table of Nowozin et al.
FORMULAS = {
    "kl": (lambda v: v, lambda t: np.exp(t - 1)),
    "reverse_kl": (lambda v: -np.exp(-v), lambda t: -1 - np.log(-t)),
    "pearson": (lambda v: v, lambda t: t**2 / 4 + t),
    "neyman": (lambda v: 1 - np.exp(-v), lambda t: 2 - 2 * np.sqrt(1 - t)),
    "squared_hellinger": (lambda v: 1 - np.exp(-v), lambda t: t / (1 - t)),
    "jensen_shannon": (lambda v: np.log(2 / (1 + np.exp(-v))), lambda t: -np.log(2 - np.exp(t))),
    "total_variation": (lambda v: np.tanh(v) / 2, lambda t: t),
}


def linear_critic(method, **kwargs):
    """Returns f = x A, c = f B and the second head f W of a method, without biases."""
    return linear_model(method, **{HEADS[method]: linear(4, 3)}, **kwargs)


def negative_divergence(a, w, classes, divergence):
    activation, conjugate = FORMULAS[divergence]
    source, target = (SOURCE @ a @ w)[ROWS, classes[0]], (TARGET @ a @ w)[ROWS, classes[1]]
    return np.mean(conjugate(activation(target))) - np.mean(activation(source))


@pytest.mark.parametrize("name", ["pearson", "jensen_shannon", "total_variation"])
def test_fdal_of_large_outputs_stays_finite(name):
    outputs = keras.ops.convert_to_tensor([-1e4, 1e4])
    for function in DIVERGENCES[name]:
        assert np.isfinite(keras.ops.convert_to_numpy(function(outputs))).all()


def disparity_loss(a, w, classes, gamma):
    """Returns gamma times the agreement on the source plus the disagreement on the target."""
    agree = -np.log(softmax(SOURCE @ a @ w)[ROWS, classes[0]])
    disagree = -np.log(1 - softmax(TARGET @ a @ w)[ROWS, classes[1]] + 1e-6)
    return gamma * agree.mean() + disagree.mean()


CASES = {
    **{name: (FDAL, "divergence", name, negative_divergence) for name in DIVERGENCES},
    **{f"mdd {gamma}": (MDD, "gamma", gamma, disparity_loss) for gamma in (4.0, 1.5)},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradients_match_the_formula(mode, case):
    method, option, value, formula = CASES[case]
    model = linear_critic(method, **{option: value})
    critic = getattr(model, HEADS[method])
    critic.set_weights([0.3 * critic.get_weights()[0]])  # large outputs of FDAL lose digits
    a, b, _ = read_weights(model)
    classes = [np.argmax(inputs @ a @ b, axis=1) for inputs in (SOURCE, TARGET)]
    loss = functools.partial(formula, classes=classes, **{option: value})
    name = "divergence/loss" if method is FDAL else "disparity/loss"
    check_adversarial_step(model, mode, name, loss)


def test_mdd_of_a_certain_adversarial_head_has_finite_loss():
    model = linear_critic(MDD)
    model.adversarial_head.set_weights([1e3 * model.label_head.get_weights()[0]])
    logs, slopes = step(model, "graph")
    assert logs["disparity/loss"] == pytest.approx(-np.log(1e-6), rel=1e-3)
    assert all(np.isfinite(slope).all() for slope in slopes)


def discrepancy(a, b, c):
    """Returns the mean absolute difference of the probabilities."""
    return np.mean(np.abs(softmax(TARGET @ a @ b) - softmax(TARGET @ a @ c)))


@pytest.mark.parametrize("mode", MODES)
def test_mcd_loss_and_gradients_match_the_formula(mode):
    model = linear_critic(MCD)
    a, b, c = read_weights(model)
    losses = {"label/loss": label_loss(a, b), "second_label/loss": label_loss(a, c)}
    losses["discrepancy/loss"] = -discrepancy(a, b, c)
    first, second = (central_differences(label_loss, [a, head]) for head in (b, c))
    slopes = central_differences(discrepancy, [a, b, c])
    gradients = [first[0] + second[0] + STRENGTH * slopes[0]]
    gradients += [first[1] - slopes[1], second[1] - slopes[2]]
    logs = check_step(model, mode, losses, gradients)
    assert logs["strength"] == pytest.approx(STRENGTH)


def test_mcd_heads_use_sample_weights_and_labeled_target():
    model = linear_critic(MCD)
    a, b, c = read_weights(model)
    inputs, labels = np.concatenate([SOURCE, TARGET]), np.concatenate([LABELS, LABELS])
    weights = np.linspace(0.1, 2.0, 10)
    logs, _ = step(model, "graph", {**PAIR, "target_labeled": TARGET}, labels, weights)
    for name, head in (("label/loss", b), ("second_label/loss", c)):
        losses = -np.log(softmax(inputs @ a @ head)[np.arange(10), labels])
        assert logs[name] == pytest.approx(np.mean(weights * losses), rel=1e-5)


@pytest.mark.parametrize(("method", "name"), HEADS.items())
def test_second_head_of_seeded_head_differs(method, name):
    dense = keras.layers.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(seed=1))
    head = keras.Sequential([keras.Input((4,)), dense])
    second = getattr(method(linear(3, 4, "backbone"), label_head=head), name)
    assert np.abs(second.get_weights()[0] - dense.get_weights()[0]).max() > 0.01


def nuclear_norm_by_svd(matrix):
    return np.linalg.svd(matrix, compute_uv=False).sum()


def norm_discrepancy(a, b):
    source, target = (nuclear_norm_by_svd(softmax(x @ a @ b)) for x in (SOURCE, TARGET))
    return (source - target) / 5


@pytest.mark.parametrize("mode", MODES)
def test_daln_loss_and_gradients_match_the_formula(mode):
    # With these weights the two norms differ by 0.5. If they were nearly equal, rounding errors
    # would dominate their difference.
    model = with_random_weights(linear_model(DALN), seed=8)
    a, b = read_weights(model)
    label_a, label_b = central_differences(label_loss, [a, b])
    discrepancy_a, discrepancy_b = central_differences(norm_discrepancy, [a, b])
    gradients = [label_a + STRENGTH * discrepancy_a, label_b - discrepancy_b]
    terms = {"label/loss": label_loss(a, b), "discrepancy/loss": -norm_discrepancy(a, b)}
    logs = check_step(model, mode, terms, gradients)
    assert logs["strength"] == pytest.approx(STRENGTH)


RNG = np.random.default_rng(5)
LEFT, RIGHT = (np.linalg.qr(RNG.normal(size=(size, size)))[0] for size in (6, 3))
MATRICES = {
    "tall": RNG.normal(size=(6, 3)),
    "square": RNG.normal(size=(4, 4)),
    "equal_singular_values": 2 * LEFT[:, :3] @ RIGHT,
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
