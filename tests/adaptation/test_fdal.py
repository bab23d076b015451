"""f-DAL's loss and gradients, against NumPy on a linear network."""

import functools

import numpy as np
import pytest
from keras import ops
from scipy import optimize
from support.formulas import linear_model
from support.networks import linear, read_weights
from support.pair import SOURCE, TARGET
from support.training_step import MODES, check_adversarial_step

from dann.adaptation import FDAL
from dann.adaptation.fdal import DIVERGENCES

# The activation g(v) and the conjugate phi*(t), as in the table of Nowozin et al.
FORMULAS = {
    "kl": (lambda v: v, lambda t: np.exp(t - 1)),
    "reverse_kl": (lambda v: -np.exp(-v), lambda t: -1 - np.log(-t)),
    "pearson": (lambda v: v, lambda t: t**2 / 4 + t),
    "neyman": (lambda v: 1 - np.exp(-v), lambda t: 2 - 2 * np.sqrt(1 - t)),
    "squared_hellinger": (lambda v: 1 - np.exp(-v), lambda t: t / (1 - t)),
    "jensen_shannon": (
        lambda v: np.log(2) - np.log(1 + np.exp(-v)),
        lambda t: -np.log(2 - np.exp(t)),
    ),
    "total_variation": (lambda v: np.tanh(v) / 2, lambda t: t),
}


def predict_classes(a, b):
    return [np.argmax(inputs @ a @ b, axis=1) for inputs in (SOURCE, TARGET)]


def negative_divergence(a, w, classes, divergence):
    activation, conjugate = FORMULAS[divergence]
    source = (SOURCE @ a @ w)[np.arange(5), classes[0]]
    target = (TARGET @ a @ w)[np.arange(5), classes[1]]
    return np.mean(conjugate(activation(target))) - np.mean(activation(source))


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("mode", MODES)
def test_fdal_loss_and_gradients_match_the_formula(mode, divergence):
    model = linear_model(FDAL, critic=linear(4, 3, "critic"), divergence=divergence)
    model.critic.set_weights([0.3 * model.critic.get_weights()[0]])
    classes = predict_classes(*read_weights(model)[:2])
    loss = functools.partial(negative_divergence, classes=classes, divergence=divergence)
    check_adversarial_step(model, mode, "divergence/loss", loss)


# phi(u), with the ratio u of the densities.
GENERATORS = {
    "kl": lambda u: u * np.log(u),
    "reverse_kl": lambda u: -np.log(u),
    "pearson": lambda u: (u - 1) ** 2,
    "neyman": lambda u: (1 - u) ** 2 / u,
    "squared_hellinger": lambda u: (np.sqrt(u) - 1) ** 2,
    "jensen_shannon": lambda u: u * np.log(u) - (u + 1) * np.log((u + 1) / 2),
    "total_variation": lambda u: np.abs(u - 1) / 2,
}


def evaluate(function, values):
    return ops.convert_to_numpy(function(ops.convert_to_tensor(values, "float32"))).astype(float)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_best_critic_attains_the_divergence(name):
    """Maximizes the bound over a critic's outputs on three points."""
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.35, 0.45])
    activation, conjugate = DIVERGENCES[name]

    def negative_bound(critic):
        return target @ evaluate(conjugate, critic) - source @ evaluate(activation, critic)

    optimum = optimize.minimize(negative_bound, np.zeros(3), method="Nelder-Mead")
    divergence = target @ GENERATORS[name](source / target)
    assert -optimum.fun == pytest.approx(divergence, rel=1e-3)


@pytest.mark.parametrize("name", ["pearson", "jensen_shannon", "total_variation"])
def test_large_outputs_stay_finite(name):
    for function in DIVERGENCES[name]:
        assert np.isfinite(evaluate(function, np.array([-1e4, 1e4]))).all()
