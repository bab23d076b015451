"""Estimates the gradient without reversals by differences of the loss, if none was found."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from keras import ops

from dann.diagnostics.instruments.backward_pass import BackwardPass, Gradients
from dann.diagnostics.instruments.vectors import cosine, norm

STEPS = {"float32": 1e-3, "half": 0.03}  # of central differences, as a share of the features' norm
AGREED = {"float32": 0.99, "half": 0.96}  # least cosine of slopes with those of a gradient
DIRECTIONS = 8  # along which slopes are compared

Slope = Callable[[Sequence[np.ndarray]], float]


def by_differences(run: BackwardPass, found: Gradients, mode: str) -> tuple[Gradients, float]:
    """Returns the gradients without reversals, if these are multiples of the gradients found.

    Returns:
        The gradients, and 1 if they are multiples. If not, instead of 1 the cosine of the loss'
        slopes along random directions with the slopes that the returned gradient predicts.
    """
    precision = "half" if run.dtypes & {"float16", "bfloat16"} else "float32"
    slope = _slope_of(run, mode, STEPS[precision])
    size = norm(found.features)
    if size == 0:
        # Nothing arrives; a slope along another direction shows whether something could.
        (direction,) = _directions(found.features, 1)
        along = slope(direction)
        return dataclasses.replace(found, features=[along * v for v in direction]), 1.0
    along = slope([g / size for g in found.features]) / size
    features = [along * g for g in found.features]
    plain = dataclasses.replace(
        found, features=features, backbone=[along * g for g in found.backbone]
    )
    agreed = _agreement(slope, features) if along and plain.are_finite() else 1.0
    return plain, agreed if agreed < AGREED[precision] else 1.0


def _agreement(slope: Slope, gradient: list[np.ndarray]) -> float:
    """Returns the cosine of slopes with those that a gradient predicts; 1 if most are rounding."""
    directions = _directions(gradient, DIRECTIONS)
    slopes = np.array([slope(direction) for direction in directions])
    told = np.array(
        [sum(np.sum(g * v) for g, v in zip(gradient, each, strict=True)) for each in directions]
    )
    seen = slopes != 0
    return cosine([slopes[seen]], [told[seen]]) if 2 * seen.sum() > DIRECTIONS else 1.0


def _directions(like: list[np.ndarray], count: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        random = [rng.normal(size=g.shape) for g in like]
        found.append([v / norm(random) for v in random])
    return found


def _slope_of(run: BackwardPass, mode: str, step: float) -> Slope:
    """Returns the derivative of the loss along directions of the features, of norm 1.

    - `(L(f + h v) - L(f - h v)) / (2 h)`, `h` a share of `||f||`; 0 if it is all rounding
    """
    width, loss = step * run.size, run.loss_in(mode)

    def slope(direction):
        above, below = (
            float(loss(*(ops.convert_to_tensor(side * width * v, "float32") for v in direction)))
            for side in (1, -1)
        )
        rounding = 1e-6 * max(abs(above), abs(below))
        return (above - below) / (2 * width) if abs(above - below) > rounding else 0.0

    return slope
