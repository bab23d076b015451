"""Estimators with the slope of a smooth curve, which may sharpen during training."""

import abc
from typing import Any

import keras
from keras import ops

from dann.checks import check_number
from dann.gradients.estimators.estimator import Estimator, register_estimator


@register_estimator("approx_sign")
class ApproxSign(Estimator):
    """`"approx_sign"`: the sign with the gradient of a piecewise quadratic, as in Bi-Real Net.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = 2 (1 - |x|) dL/dy` where `|x| <= 1`, else `0`; the derivative of
      `x (2 - |x|)`

    Reference:
        - [Liu et al., 2018](https://arxiv.org/abs/1808.00278), section 3.3, on the approximated
          derivative of the sign.
    """

    def slope(self, inputs: Any, *runtime_inputs: Any) -> Any:
        return 2 * (1 - ops.abs(inputs))

    def surrogate_curve(self, inputs: Any, *runtime_inputs: Any) -> Any:
        return inputs * (2 - ops.abs(inputs))


@register_estimator("swish_sign")
class SwishSign(Estimator):
    """`"swish_sign"`: the sign with the gradient of SignSwish, smooth and negative at the tails.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = beta (2 - beta x tanh(beta x / 2)) / (1 + cosh(beta x)) dL/dy`, the
      derivative of `2 s (1 + beta x (1 - s)) - 1` with `s = sigmoid(beta x)`; `0` where
      `|x| > 80 / beta`, where it is below `1e-30 beta`

    Args:
        beta: Steepness, above 0. Defaults to `5.0`, as in the paper.

    Reference:
        - [Darabi et al., 2018](https://arxiv.org/abs/1812.11800), section 3, SignSwish.
    """

    arguments = ("beta",)

    def __init__(self, beta: float = 5.0):
        self.beta = check_number("beta", beta, low=0, exclude_low=True)

    def gradient_mask(self, inputs: Any) -> Any:
        # Near |beta x| = 87, `sigmoid(-|beta x|)` underflows in float32.
        return ops.abs(inputs) <= 80 / self.beta

    def slope(self, inputs: Any, *runtime_inputs: Any) -> Any:
        x = self.beta * inputs
        # 1 / (1 + cosh x) = 2 sigmoid(x) sigmoid(-x), without the overflow of cosh.
        bell = 2 * ops.sigmoid(x) * ops.sigmoid(-x)
        return self.beta * bell * (2 - x * ops.tanh(x / 2))

    def surrogate_curve(self, inputs: Any, *runtime_inputs: Any) -> Any:
        x = self.beta * inputs
        return 2 * ops.sigmoid(x) * (1 + x * ops.sigmoid(-x)) - 1


class ScheduledEstimator(Estimator):
    """Estimator whose sharpness rises from `low` to `high` during training.

    A layer computes the sharpness from the number of its calls with `training=True`, which is the
    number of training steps if each step calls the layer once. The layer stores both numbers in
    non-trainable weights. Functions take the sharpness as an argument that defaults to `high`.

    Args:
        total_steps: Length of the run in calls with `training=True`, above 0.
        low: Sharpness at step 0, above 0.
        high: Sharpness from the last step on, at least `low`.
    """

    arguments = ("total_steps", "low", "high")

    def __init__(self, total_steps: int, low: float, high: float):
        self.total_steps = check_number("total_steps", total_steps, low=0, exclude_low=True)
        self.low = check_number("low", low, low=0, exclude_low=True)
        self.high = check_number("high", high, low=low, hint="because the estimator gets sharper")

    def sharpness_at(self, step: Any) -> Any:
        """Returns the sharpness at a training step, a float32 scalar."""
        progress = ops.minimum(ops.cast(step, "float32") / self.total_steps, 1.0)
        return self.interpolate(progress)

    @abc.abstractmethod
    def interpolate(self, progress: Any) -> Any:
        """Returns the sharpness at a fraction of the run, from 0 at the start to 1 at the end."""

    def runtime_inputs(self, inputs: Any, sharpness: Any, seed: Any) -> tuple:
        super().runtime_inputs(inputs, None, seed)
        if sharpness is None:
            sharpness = self.high
        if isinstance(sharpness, int | float):
            check_number("sharpness", sharpness, low=0, exclude_low=True)
        # In half precision the sharpness would change in coarse steps.
        wide = keras.backend.result_type(inputs.dtype, "float32")
        return (ops.cast(ops.convert_to_tensor(sharpness), wide),)


@register_estimator("ede")
class EDE(ScheduledEstimator):
    """`"ede"`: the sign with the gradient of a tanh that steepens in training, as in IR-Net.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = k t (1 - tanh(t x)^2) dL/dy` with `k = max(1 / t, 1)`, at every finite `x`;
      the derivative of `k tanh(t x)`
    - sharpness: `t = low (high / low)^p`, with `p = min(step / total_steps, 1)`

    At first the gradient is almost the gradient of the identity; at the end it is concentrated
    around 0.

    Args:
        total_steps: Length of the run in calls with `training=True`, above 0. Defaults to `10_000`.
        low: `t` at step 0, above 0. Defaults to `1e-3`, as in the paper.
        high: `t` at the end, at least `low`. Defaults to `10.0`, as in the paper.

    Example:

    >>> from dann.gradients.estimators import EDE
    >>> estimator = EDE(total_steps=100)
    >>> [round(float(estimator.sharpness_at(step)), 3) for step in (0, 50, 75, 100, 200)]
    [0.001, 0.1, 1.0, 10.0, 10.0]

    Reference:
        - [Qin et al., 2020](https://arxiv.org/abs/1909.10788), section 3.3.
    """

    def __init__(self, total_steps: int = 10_000, low: float = 1e-3, high: float = 10.0):
        super().__init__(total_steps, low, high)

    def interpolate(self, progress: Any) -> Any:
        # log t rises linearly.
        return self.low * (self.high / self.low) ** progress

    def gradient_mask(self, inputs: Any) -> Any:
        return ops.abs(inputs) < float("inf")  # false for NaN too

    def slope(self, inputs: Any, t: Any) -> Any:
        # k t = max(1, t) is the slope at 0, so small t do not shrink the gradient.
        return ops.maximum(1 / t, 1) * t * (1 - ops.square(ops.tanh(t * inputs)))

    def surrogate_curve(self, inputs: Any, t: Any) -> Any:
        return ops.maximum(1 / t, 1) * ops.tanh(t * inputs)


@register_estimator("reste")
class ReSTE(ScheduledEstimator):
    """`"reste"`: the sign with the gradient of a root whose order rises in training.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = (1 / o) |x|^((1 - o) / o) dL/dy` where `0.1 < |x| <= 1.5`, the derivative
      of `sign(x) |x|^(1 / o)`; `0.1^((1 - o) / o) dL/dy`, the slope of the chord, where
      `|x| <= 0.1`; else `0`
    - sharpness: `o = low + (high - low) p`, with `p = min(step / total_steps, 1)`

    With `o = 1`, the estimator equals the straight-through estimator on `|x| <= 1.5`.

    Args:
        total_steps: Length of the run in calls with `training=True`, above 0. Defaults to `10_000`.
        low: `o` at step 0, at least 1. Defaults to `1.0`, as in the paper.
        high: `o` at the end, at least `low`. Defaults to `3.0`, as in the paper.

    Reference:
        - [Wu et al., 2023](https://arxiv.org/abs/2308.06689), section 3.3; bounds 0.1 and 1.5 as in
          the released code.
    """

    inner_bound = 0.1
    outer_bound = 1.5

    def __init__(self, total_steps: int = 10_000, low: float = 1.0, high: float = 3.0):
        super().__init__(total_steps, low, high)
        check_number("low", low, low=1)

    def interpolate(self, progress: Any) -> Any:
        return self.low + (self.high - self.low) * progress

    def gradient_mask(self, inputs: Any) -> Any:
        return ops.abs(inputs) <= self.outer_bound

    def slope(self, inputs: Any, o: Any) -> Any:
        is_outer, magnitude, chord = self._parts(inputs, o)
        return ops.where(is_outer, magnitude ** ((1 - o) / o) / o, chord)

    def surrogate_curve(self, inputs: Any, o: Any) -> Any:
        is_outer, magnitude, chord = self._parts(inputs, o)
        return ops.where(is_outer, ops.sign(inputs) * magnitude ** (1 / o), chord * inputs)

    def _parts(self, inputs, o):
        magnitude = ops.abs(inputs)
        is_outer = magnitude > self.inner_bound
        # The slope of the root is infinite at 0, and `where` alone would multiply it by 0: NaN.
        safe = ops.where(is_outer, magnitude, ops.full_like(magnitude, self.inner_bound))
        # The chord from 0 to the inner bound b has the slope b^(1 / o) / b.
        return is_outer, safe, self.inner_bound ** ((1 - o) / o)
