"""Every estimator against its published formulas, in every type, mode and implementation."""

import copy
import itertools
import pickle

import keras
import numpy as np
import pytest
from published_estimators import PUBLISHED, sign
from support import differentiate
from support.differentiate import BACKEND, DTYPES, as_array, bits, tensor, value_and_gradients

from dann.gradients import binary_sign
from dann.gradients.estimators import EDE, ReSTE, SwishSign
from dann.gradients.estimators.estimator import ESTIMATORS
from dann.gradients.estimators.identifiers import get_estimator

# Eager for all, in a graph without further parameters, and by XLA one of each kind of arithmetic.
CASES = [(name, False) for name in PUBLISHED]
CASES += [(name, True) for name in PUBLISHED if "(" not in name or "kernel" in name or "." in name]
if BACKEND == "tensorflow":
    CASES += [(name, "xla") for name in ("htanh", "swish_sign", "ternary", "dorefa(kernel)")]
IMPLEMENTATIONS = ["override", "stop_gradient"]


def points(dtype, name):
    """Returns zeros, edges and their neighbors, subnormals, infinities, NaN and random numbers.

    The second of the two rows gives each column a mean of its own.
    """
    # The expectation uses the thresholds 0.05 and 0.1 of float32, which float64 does not have.
    thresholds = [0.05, 0.1] * (dtype != "float64")
    edges = as_array(tensor([*thresholds, 0.5, 1.0, 1.5, 16.0], dtype))
    neighbors = [np.nextafter(edges, edges * end) for end in (0, 2)]
    smallest = np.nextafter(edges[:1] * 0, edges[:1])
    rng = np.random.default_rng(0)
    samples = [as_array(tensor(rng.normal(size=40) * scale, dtype)) for scale in (0.1, 1, 100)]
    positive = np.concatenate([edges * 0, edges, *neighbors, smallest, smallest * 5])
    special = as_array(tensor([np.inf, -np.inf, np.nan], dtype))
    row = np.concatenate([positive, -positive, *samples, special])
    if name == "ternary(None)":  # an infinite value makes the threshold infinite
        row = np.where(np.isfinite(row), row, samples[0][0])
    return np.stack([row, np.full_like(row, 0.25)])


def make_sign(name, implementation, seed=None):
    estimator, sharpness = PUBLISHED[name].estimator, PUBLISHED[name].sharpness

    def function(inputs):
        return binary_sign(inputs, implementation, estimator, sharpness, seed)

    return function


def assert_value(name, value, inputs, dtype):
    expected = PUBLISHED[name].value(inputs.astype("float64"))
    subnormal = is_negative_subnormal(inputs, dtype)
    value = value.astype("float64")
    assert {abs(level) for level in value[subnormal & (np.abs(expected) == 1)]} <= {1.0}
    tolerance = 0.0 if PUBLISHED[name].value is sign else 2 * spacing(dtype)
    np.testing.assert_allclose(value[~subnormal], expected[~subnormal], rtol=tolerance)


def is_negative_subnormal(inputs, dtype):
    """Returns where a device that flushes subnormal numbers may read a negative number as zero."""
    smallest_normal = np.finfo("float16" if dtype == "float16" else "float32").tiny
    inputs = inputs.astype("float64")
    return (inputs < 0) & (inputs > -float(smallest_normal))


def assert_gradient(name, gradient, slope, upstream, dtype):
    """Allows two roundings of the type, and a few of float32 where the slope is computed."""
    upstream = upstream.astype("float64")
    flushed = 1e-7 if dtype == "float16" else 1e-37
    bound = 1.5 * spacing(dtype) * np.abs(upstream * slope) + flushed
    if not PUBLISHED[name].same_bits:
        bound = bound + 4e-6 * PUBLISHED[name].steepest * np.abs(upstream)
    error = np.abs(gradient.astype("float64") - upstream * slope)
    assert (error <= bound).all(), (dtype, float((error / bound).max()))


def spacing(dtype):
    """Returns the distance from 1 to the next number."""
    unit = as_array(tensor([1.0], dtype))
    return float(np.nextafter(unit, unit * 2)[0]) - 1.0


@pytest.mark.parametrize(("name", "compiled"), CASES)
def test_value_and_gradient_match_the_paper(name, compiled):
    dtypes = DTYPES[:3] if compiled else DTYPES
    with_op = name == "htanh" and BACKEND == "tensorflow"
    implementations = IMPLEMENTATIONS + ["op_override"] * with_op
    cases = list(itertools.product(dtypes, implementations))
    inputs = {dtype: points(dtype, name) for dtype in dtypes}
    samples = np.random.default_rng(1).normal(size=1000)
    upstreams = {
        dtype: as_array(tensor(samples[: array.size].reshape(array.shape), dtype))
        for dtype, array in inputs.items()
    }
    pairs = differentiate.values_and_gradients(
        [make_sign(name, implementation) for _, implementation in cases],
        [inputs[dtype] for dtype, _ in cases],
        [upstreams[dtype] for dtype, _ in cases],
        compiled,
    )
    results = dict(zip(cases, pairs, strict=True))
    for (dtype, implementation), (value, gradient) in results.items():
        reference_value, reference_gradient = results[dtype, "override"]
        np.testing.assert_array_equal(bits(value), bits(reference_value), implementation)
        if PUBLISHED[name].same_bits:
            np.testing.assert_array_equal(gradient, reference_gradient, implementation)
        slope = PUBLISHED[name].slope(inputs[dtype].astype("float64"))
        assert_value(name, value, inputs[dtype], dtype)
        if name.startswith("dorefa"):  # its mask begins at 0, where a flushed number may be
            subnormal = is_negative_subnormal(inputs[dtype], dtype)
            slope, gradient = (np.where(subnormal, 0, array) for array in (slope, gradient))
        assert_gradient(name, gradient, slope, upstreams[dtype], dtype)


def test_every_estimator_is_tested():
    tested = {type(get_estimator(published.estimator)) for published in PUBLISHED.values()}
    assert tested == {type(estimator) for estimator in ESTIMATORS.values()}


@pytest.mark.parametrize(
    ("estimator", "implementation"),
    [*itertools.product(["htanh", "ternary"], IMPLEMENTATIONS)]
    + [("approx_sign", "override"), ("reste", "override")]
    + [("htanh", "op_override")] * (BACKEND == "tensorflow"),
)
def test_mask_stops_an_infinite_upstream(estimator, implementation):
    def function(inputs):
        return binary_sign(inputs, implementation, estimator)

    inputs = tensor([-2.0, 0.5, 2.0], "float32")
    _, (gradient,) = value_and_gradients(function, inputs, upstream=np.full(3, np.inf))
    assert gradient.tolist() == [0.0, np.inf, 0.0]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("estimator", "sharpness", "second"),
    [
        ("htanh", None, np.zeros_like),
        ("approx_sign", None, lambda x: -2 * np.sign(x)),
        ("ede", 1.0, lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    ],
)
def test_second_derivative_matches_the_curve(estimator, sharpness, second, implementation):
    def function(inputs):
        return binary_sign(inputs, implementation, estimator, sharpness)

    x = np.array([-0.75, -0.25, 0.5], "float32")
    np.testing.assert_allclose(differentiate.derivative(function, x, 2), second(x), rtol=1e-5)


def test_stochastic_draws_with_hard_sigmoid_probability():
    inputs = np.repeat(np.array([-1.5, -1, -0.5, 0, 0.8, 1, 2], "float32"), 20_000)
    pairs = [
        value_and_gradients(make_sign("stochastic", implementation, seed=3), inputs, compiled=True)
        for implementation in IMPLEMENTATIONS
    ]
    for value, (gradient,) in pairs:
        assert set(value.tolist()) == {-1.0, 1.0}
        fractions = (value == 1).reshape(7, -1).mean(axis=1)
        assert fractions[[0, 1, 5, 6]].tolist() == [0, 0, 1, 1]
        # Four standard errors of a fraction of 20,000 draws.
        np.testing.assert_allclose(fractions[2:5], [0.25, 0.5, 0.9], atol=4 * 0.5 / 20_000**0.5)
        np.testing.assert_array_equal(gradient, np.abs(inputs) <= 1)
    np.testing.assert_array_equal(pairs[0][0], pairs[1][0])


def test_sharpness_schedules_end_and_stay():
    steps = [0, 25, 50, 100, 1000]
    ede, reste = EDE(total_steps=100), ReSTE(total_steps=100)
    values = [float(ede.sharpness_at(step)) for step in steps]
    np.testing.assert_allclose(values, [1e-3, 1e-2, 1e-1, 10, 10], rtol=1e-5)
    values = [float(reste.sharpness_at(step)) for step in steps]
    np.testing.assert_allclose(values, [1, 1.5, 2, 3, 3], rtol=1e-6)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator_survives_copy_pickle_and_config(name):
    estimator = ESTIMATORS[name]
    estimator(np.ones(2, "float32"))  # traced
    config = keras.saving.serialize_keras_object(estimator)
    for duplicate in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        assert duplicate == estimator
    assert get_estimator(config) == estimator
    assert get_estimator(config) is not estimator
    assert {estimator, get_estimator(config), SwishSign(2.0)} == {SwishSign(2.0), estimator}
