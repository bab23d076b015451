"""Every estimator against its published formulas, in every type and mode, both implementations."""

import copy
import functools
import itertools
import pickle

import keras
import numpy as np
import pytest
from published_estimators import PUBLISHED, ede_slope, sign
from support.differentiate import (
    BACKEND,
    DTYPES,
    as_array,
    bits,
    derivative,
    tensor,
    value_and_gradients,
    values_and_gradients,
)

from dann.gradients import binary_sign
from dann.gradients.estimators import (
    EDE,
    ESTIMATORS,
    DoReFa,
    MagnitudeAware,
    ReSTE,
    Stochastic,
    SwishSign,
    Ternary,
    get_estimator,
    get_kernel_estimator,
)

MODES = [False, True] + ["xla"] * (BACKEND == "tensorflow")
NAMES_TO_COMPILE = [
    name for name in PUBLISHED if "(" not in name or "kernel" in name or "." in name
]
WAYS = ["override", "stop_gradient"]
each_implementation = pytest.mark.parametrize("implementation", WAYS)


def points(dtype, name):
    """Zeros, edges and their neighbours, subnormals, infinities, NaN and random numbers.

    Two rows, the second of which leaves each column a mean of its own.
    """
    # Float64 has no 0.05 and 0.1 of float32, in which the expectation draws the line.
    thresholds = [0.05, 0.1] * (dtype != "float64")
    edges = as_array(tensor([*thresholds, 0.5, 1.0, 1.5, 16.0], dtype))
    near = [np.nextafter(edges, edges * end) for end in (0, 2)]
    smallest = np.nextafter(edges[:1] * 0, edges[:1])
    random = np.random.default_rng(0)
    drawn = [as_array(tensor(random.normal(size=40) * scale, dtype)) for scale in (0.1, 1, 100)]
    positive = np.concatenate([edges * 0, edges, *near, smallest, smallest * 5])
    special = as_array(tensor([np.inf, -np.inf, np.nan], dtype))
    row = np.concatenate([positive, -positive, *drawn, special])
    if name == "ternary(None)":  # where an infinite value makes all the others 0
        row = np.where(np.isfinite(row), row, drawn[0][0])
    return np.stack([row, np.full_like(row, 0.25)])


def sign_by(name, implementation, seed=None):
    estimator, sharpness = PUBLISHED[name].estimator, PUBLISHED[name].sharpness

    def function(inputs):
        return binary_sign(inputs, implementation, estimator, sharpness, seed)

    return function


def assert_value(name, value, inputs, dtype):
    expected = PUBLISHED[name].value(inputs.astype("float64"))
    subnormal = negative_subnormal(inputs, dtype)
    seen = value.astype("float64")
    assert {abs(one) for one in seen[subnormal & (np.abs(expected) == 1)]} <= {1.0}
    tolerance = 0.0 if PUBLISHED[name].value is sign else 2 * spacing(dtype)
    np.testing.assert_allclose(seen[~subnormal], expected[~subnormal], rtol=tolerance)


def negative_subnormal(inputs, dtype):
    """Where a device that flushes subnormal numbers sees a zero in place of a negative number."""
    least = np.finfo("float16" if dtype == "float16" else "float32").tiny
    inputs = inputs.astype("float64")
    return (inputs < 0) & (inputs > -float(least))


def assert_gradient(name, gradient, slope, upstream, dtype):
    """Within two roundings of the type, and a few of float32 where the slope is computed."""
    upstream = upstream.astype("float64")
    flushed = 1e-7 if dtype == "float16" else 1e-37
    bound = 1.5 * spacing(dtype) * np.abs(upstream * slope) + flushed
    if not PUBLISHED[name].same_bits:
        bound = bound + 4e-6 * PUBLISHED[name].steepest * np.abs(upstream)
    error = np.abs(gradient.astype("float64") - upstream * slope)
    assert (error <= bound).all(), (dtype, float((error / bound).max()))


def spacing(dtype):
    """The distance from 1 to the next number."""
    one = as_array(tensor([1.0], dtype))
    return float(np.nextafter(one, one * 2)[0]) - 1.0


@pytest.mark.parametrize(
    ("name", "compiled"),
    [(name, False) for name in PUBLISHED]
    + [(name, mode) for name in NAMES_TO_COMPILE for mode in MODES[1:]],
)
def test_value_and_gradient_are_those_published_in_every_type_and_way(name, compiled):
    dtypes = DTYPES[:3] if compiled else DTYPES
    implementations = (
        [*WAYS, "op_override"] if name == "htanh" and BACKEND == "tensorflow" else WAYS
    )
    cases = [(dtype, implementation) for dtype in dtypes for implementation in implementations]
    inputs = {dtype: points(dtype, name) for dtype in dtypes}
    draws = np.random.default_rng(1).normal(size=1000)
    upstreams = {
        dtype: as_array(tensor(draws[: 2 * array.shape[1]].reshape(array.shape), dtype))
        for dtype, array in inputs.items()
    }
    pairs = values_and_gradients(
        [sign_by(name, implementation) for _, implementation in cases],
        [inputs[dtype] for dtype, _ in cases],
        [upstreams[dtype] for dtype, _ in cases],
        compiled,
    )
    seen = dict(zip(cases, pairs, strict=True))
    for (dtype, _), (value, gradient) in seen.items():
        slope = PUBLISHED[name].slope(inputs[dtype].astype("float64"))
        assert_value(name, value, inputs[dtype], dtype)
        if name.startswith("dorefa"):  # whose mask begins at 0, where a flushed number would be
            slope, gradient = (
                np.where(negative_subnormal(inputs[dtype], dtype), 0, array)
                for array in (slope, gradient)
            )
        assert_gradient(name, gradient, slope, upstreams[dtype], dtype)
    for dtype, implementation in itertools.product(dtypes, implementations[1:]):
        (value, gradient), (other_value, other) = (
            seen[dtype, implementations[0]],
            seen[dtype, implementation],
        )
        np.testing.assert_array_equal(bits(other_value), bits(value))
        if PUBLISHED[name].same_bits:
            np.testing.assert_array_equal(other, gradient)


def test_no_estimator_is_forgotten():
    judged = {type(get_estimator(published.estimator)) for published in PUBLISHED.values()}
    assert judged == {type(estimator) for estimator in ESTIMATORS.values()}


@pytest.mark.parametrize(
    ("estimator", "implementation"),
    [*itertools.product(["htanh", "ternary"], WAYS)]
    + [("approx_sign", "override"), ("reste", "override")]
    + [("htanh", "op_override")] * (BACKEND == "tensorflow"),
)
def test_an_infinite_upstream_stays_behind_the_mask(estimator, implementation):
    def function(inputs):
        return binary_sign(inputs, implementation, estimator)

    inputs = tensor([-2.0, 0.5, 2.0], "float32")
    _, (gradient,) = value_and_gradients(function, inputs, upstream=np.full(3, np.inf))
    assert gradient.tolist() == [0.0, np.inf, 0.0]


@each_implementation
@pytest.mark.parametrize(
    ("estimator", "second"),
    [
        ("htanh", np.zeros_like),
        ("approx_sign", lambda x: -2 * np.sign(x)),
        ("ede", lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    ],
)
def test_the_second_derivative_is_that_of_the_curve(estimator, second, implementation):
    """Of y + y^3: 4 slope' + 6 y slope^2."""
    sharpness = 1.0 if estimator == "ede" else None

    def function(inputs):
        outputs = binary_sign(inputs, implementation, estimator, sharpness)
        return outputs + outputs**3

    x = np.array([-0.75, -0.25, 0.5], "float32")
    slope = ede_slope(x, 1.0) if estimator == "ede" else PUBLISHED[estimator].slope(x)
    expected = 4 * second(x) + 6 * np.sign(x) * slope**2
    np.testing.assert_allclose(derivative(function, x, 2), expected, rtol=1e-5)


def test_stochastic_draws_by_the_hard_sigmoid_and_keeps_the_gradient_of_htanh():
    inputs = np.repeat(np.array([-1.5, -1, -0.5, 0, 0.8, 1, 2], "float32"), 20_000)
    functions = [sign_by("stochastic", implementation, seed=3) for implementation in WAYS]
    pairs = [value_and_gradients(function, inputs, compiled=True) for function in functions]
    for drawn, (gradient,) in pairs:
        assert set(drawn.tolist()) == {-1.0, 1.0}
        shares = (drawn == 1).reshape(7, -1).mean(axis=1)
        assert shares[[0, 1, 5, 6]].tolist() == [0, 0, 1, 1]
        # Four standard errors of a share of 20,000 draws.
        np.testing.assert_allclose(shares[2:5], [0.25, 0.5, 0.9], atol=4 * 0.5 / 20_000**0.5)
        np.testing.assert_array_equal(gradient, np.abs(inputs) <= 1)
    np.testing.assert_array_equal(pairs[0][0], pairs[1][0])


@each_implementation
def test_magnitudes_are_those_of_the_channels(implementation):
    kernel = np.array([[[1.0, -2.0]], [[-0.5, 0.25]]], "float32")

    def scaled_by(axis):
        return as_array(binary_sign(kernel, implementation, MagnitudeAware(axis)))

    np.testing.assert_allclose(scaled_by(-1), [[[0.75, -1.125]], [[-0.75, 1.125]]])
    np.testing.assert_allclose(scaled_by(0), [[[1.5, -1.5]], [[-0.375, 0.375]]])
    np.testing.assert_allclose(scaled_by([0, 2]), kernel)


@pytest.mark.parametrize("name", PUBLISHED)
def test_both_ways_have_the_same_second_derivatives(name):
    """Differentiates squared values, so that a constant value would change the result."""
    estimator = PUBLISHED[name].estimator
    inputs = np.random.default_rng(5).uniform(-1.4, 1.4, (3, 4)).astype("float32")
    upstream = np.arange(12, dtype="float32").reshape(3, 4) - 5

    def squares(inputs, implementation):
        return keras.ops.multiply(
            upstream, keras.ops.square(binary_sign(inputs, implementation, estimator))
        )

    seen = [
        derivative(
            lambda x, implementation=implementation: squares(x, implementation), inputs, order=2
        )
        for implementation in WAYS
    ]
    assert np.isfinite(seen[0]).all()
    assert seen[0].any()
    np.testing.assert_allclose(*seen, rtol=2e-4, atol=2e-4 * np.abs(seen[0]).max())


def test_a_kernel_of_one_bit_has_two_levels_and_is_positive_at_zero():
    one_bit = functools.partial(binary_sign, estimator=DoReFa(1, mode="kernel"))
    assert as_array(one_bit(np.float32([-2, -1e-3, 0, 1e-3, 2]))).tolist() == [-1, -1, 1, 1, 1]
    value, (gradient,) = value_and_gradients(one_bit, np.zeros(3, "float32"))
    assert value.tolist() == gradient.tolist() == [1.0, 1.0, 1.0]


def test_schedules_go_from_their_start_to_their_end_and_stay_there():
    steps = [0, 25, 50, 100, 1000]
    ede, reste = EDE(total_steps=100), ReSTE(total_steps=100)
    seen = [float(ede.sharpness_at(step)) for step in steps]
    np.testing.assert_allclose(seen, [1e-3, 1e-2, 1e-1, 10, 10], rtol=1e-5)
    seen = [float(reste.sharpness_at(step)) for step in steps]
    np.testing.assert_allclose(seen, [1, 1.5, 2, 3, 3], rtol=1e-6)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_survives_copies_pickles_and_serialization(name):
    estimator = ESTIMATORS[name]
    estimator(np.ones(2, "float32"))  # traced
    config = keras.saving.serialize_keras_object(estimator)
    for again in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        assert again == estimator
    assert get_estimator(config) == estimator
    assert get_estimator(config) is not estimator
    assert {estimator, get_estimator(config), SwishSign(2.0)} == {SwishSign(2.0), estimator}


def test_a_kernel_gets_the_parameters_that_fit_it():
    assert get_kernel_estimator("magnitude_aware", (-2,)) == MagnitudeAware([-2])
    assert get_kernel_estimator("dorefa", (-1,)) == DoReFa(mode="kernel")
    assert get_kernel_estimator("ede", (-1,)) == EDE()


ONE = np.ones(1, "float32")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: get_estimator("ste"), ValueError),
        (lambda: SwishSign(0), ValueError),
        (lambda: EDE(low=2, high=1), ValueError),
        (lambda: ReSTE(low=0.5), ValueError),
        (lambda: Ternary(-1), ValueError),
        (lambda: DoReFa(0), ValueError),
        (lambda: DoReFa(mode="x"), ValueError),
        (lambda: Stochastic("3"), TypeError),
        (lambda: get_kernel_estimator(DoReFa(), [-1]), ValueError),
        (lambda: binary_sign(ONE, sharpness=2.0), ValueError),
        (lambda: binary_sign(ONE, estimator="ede", seed=1), ValueError),
        (lambda: binary_sign(ONE, estimator="ede", sharpness=-1.0), ValueError),
        (lambda: binary_sign(ONE, "op_override", "identity"), ValueError),
    ],
)
def test_what_cannot_be_is_refused(make, error):
    with pytest.raises(error):
        make()
