"""Formulas of every estimator from its paper, in NumPy and float64."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dann.gradients.estimators import DoReFa, MagnitudeAware, SwishSign, Ternary

# The threshold of the package is 0.05 in float32.
FLOAT32_THRESHOLD = float(np.float32(0.05))


def sign(x):
    return np.where(np.isnan(x), np.nan, np.where(x >= 0, 1.0, -1.0))


def within(x, bound=1.0):
    with np.errstate(invalid="ignore"):
        return (np.abs(x) <= bound).astype("float64")


def finite(x):
    return np.where(np.isfinite(x), x, 0.0)


def approx_sign_slope(x):
    return np.maximum(2 - 2 * np.abs(finite(x)), 0) * within(x)


def swish_sign_slope(x, beta=5.0):
    a = np.clip(beta * finite(x), -300, 300)
    return np.isfinite(x) * beta * (2 - a * np.tanh(a / 2)) / (1 + np.cosh(a))


def ede_slope(x, t=10.0):
    return np.isfinite(x) * max(1 / t, 1) * t / np.cosh(np.clip(t * finite(x), -300, 300)) ** 2


def reste_slope(x, o=3.0):
    magnitude = np.maximum(np.abs(finite(x)), np.float32(0.1))
    inner = np.abs(finite(x)) <= np.float32(0.1)
    outer_slope = magnitude ** ((1 - o) / o) / o
    return within(x, 1.5) * np.where(inner, 0.1 ** (1 / o) / 0.1, outer_slope)


def channel_means(x):
    return np.abs(x).mean(axis=0, keepdims=True)


def magnitude_aware(x):
    with np.errstate(invalid="ignore"):
        return channel_means(x) * sign(x)


def magnitude_aware_slope(x):
    return within(x) * finite(channel_means(x))


def ternary(x, threshold=FLOAT32_THRESHOLD):
    signs = np.where(x > threshold, 1.0, np.where(x < -threshold, -1.0, 0.0))
    return np.where(np.isnan(x), np.nan, signs)


def ternary_weights(x):
    return ternary(x, 0.7 * np.abs(x).mean())


def round_half_up(x):
    return np.floor(x + 0.5)


def dorefa(x, bits=2):
    steps = 2**bits - 1
    return round_half_up(np.clip(x, 0, 1) * steps) / steps


def dorefa_slope(x):
    return ((x >= 0) & (x <= 1)).astype("float64")


def max_tanh(x):
    return np.abs(np.tanh(finite(x))).max()


def dorefa_kernel(x, bits=2):
    steps = 2**bits - 1
    fraction = np.clip(np.tanh(x) / (2 * max_tanh(x)) + 0.5, 0, 1)
    return 2 * round_half_up(fraction * steps) / steps - 1


def dorefa_kernel_slope(x):
    return np.isfinite(x) / np.cosh(np.clip(finite(x), -300, 300)) ** 2 / max_tanh(x)


@dataclass(frozen=True)
class Published:
    """Value and slope of an estimator, and whether all implementations are bit-identical."""

    estimator: Any
    value: Any
    slope: Any
    steepest: float = 1.0
    same_bits: bool = False
    sharpness: float | None = None


PUBLISHED = {
    "htanh": Published("htanh", sign, within, same_bits=True),
    "identity": Published("identity", sign, lambda x: np.isfinite(x) * 1.0, same_bits=True),
    "approx_sign": Published("approx_sign", sign, approx_sign_slope, 2.0),
    "swish_sign": Published("swish_sign", sign, swish_sign_slope, 5.0),
    "swish_sign(2)": Published(SwishSign(2.0), sign, lambda x: swish_sign_slope(x, 2.0), 2.0),
    "magnitude_aware": Published(
        MagnitudeAware(), magnitude_aware, magnitude_aware_slope, same_bits=True
    ),
    "ede": Published("ede", sign, ede_slope, 10.0),
    "reste": Published("reste", sign, reste_slope, 5.0),
    "ede(0.001)": Published("ede", sign, lambda x: ede_slope(x, 1e-3), sharpness=1e-3),
    "ede(0.7)": Published("ede", sign, lambda x: ede_slope(x, 0.7), sharpness=0.7),
    "reste(1)": Published("reste", sign, lambda x: reste_slope(x, 1.0), sharpness=1.0),
    "reste(2.2)": Published("reste", sign, lambda x: reste_slope(x, 2.2), 3.6, sharpness=2.2),
    "stochastic": Published("stochastic", sign, within, same_bits=True),
    "ternary": Published("ternary", ternary, within, same_bits=True),
    "ternary(None)": Published(Ternary(None), ternary_weights, within, same_bits=True),
    "dorefa": Published("dorefa", dorefa, dorefa_slope, same_bits=True),
    "dorefa(8)": Published(DoReFa(8), lambda x: dorefa(x, 8), dorefa_slope, same_bits=True),
    "dorefa(kernel)": Published(DoReFa(mode="kernel"), dorefa_kernel, dorefa_kernel_slope, 1.1),
}
