"""The conjugates of the f-divergences, against the maximum that defines them."""

import numpy as np
import pytest
from keras import ops
from scipy import optimize

from dann.adaptation.divergences import DIVERGENCES

# phi(u), of the ratio of the densities.
GENERATORS = {
    "kl": lambda u: u * np.log(u),
    "reverse_kl": lambda u: -np.log(u),
    "pearson": lambda u: (u - 1) ** 2,
    "neyman": lambda u: (1 - u) ** 2 / u,
    "squared_hellinger": lambda u: (np.sqrt(u) - 1) ** 2,
    "jensen_shannon": lambda u: u * np.log(u) - (u + 1) * np.log((u + 1) / 2),
    "total_variation": lambda u: np.abs(u - 1) / 2,
}
OUTPUTS = np.array([-3.0, -1.2, -0.4, 0.0, 0.3, 1.0, 2.5])


def conjugate(name, slope):
    """`sup_u (u t - phi(u))`, over positive `u`; over all `u` for Pearson's."""
    generator = GENERATORS[name]
    if name == "pearson":
        found = optimize.minimize_scalar(lambda u: generator(u) - u * slope, bracket=(-1, 1))
        return -found.fun
    # On a logarithmic scale the maximum is well in reach of a bounded search.
    found = optimize.minimize_scalar(
        lambda log_u: generator(np.exp(log_u)) - np.exp(log_u) * slope,
        bounds=(-20, 20),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return -found.fun


def evaluated(function, values):
    return ops.convert_to_numpy(function(ops.convert_to_tensor(values, "float32"))).astype(float)


def test_every_divergence_has_its_generator_here():
    assert set(GENERATORS) == set(DIVERGENCES)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_conjugate_is_the_maximum_that_defines_it(name):
    slopes = evaluated(DIVERGENCES[name].activation, OUTPUTS)
    expected = [conjugate(name, slope) for slope in slopes]
    found = evaluated(DIVERGENCES[name].conjugate, OUTPUTS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_generator_is_zero_where_the_densities_are_equal_and_the_activation_rises(name):
    assert GENERATORS[name](1.0) == 0
    assert (np.diff(evaluated(DIVERGENCES[name].activation, OUTPUTS)) > 0).all()


@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_best_critic_gives_the_divergence_and_every_other_less(name):
    """Two distributions on three points; the bound's maximum over the critic's three outputs."""
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.35, 0.45])

    def minus_bound(critic):
        activation = evaluated(DIVERGENCES[name].activation, critic)
        return target @ evaluated(DIVERGENCES[name].conjugate, critic) - source @ activation

    found = optimize.minimize(minus_bound, np.zeros(3), method="Nelder-Mead")
    divergence = target @ GENERATORS[name](source / target)
    assert -found.fun == pytest.approx(divergence, rel=1e-3)


@pytest.mark.parametrize("name", ["pearson", "jensen_shannon", "total_variation"])
def test_far_outputs_stay_finite(name):
    for function in (DIVERGENCES[name].activation, DIVERGENCES[name].conjugate):
        assert np.isfinite(evaluated(function, np.array([-1e4, 1e4]))).all()
