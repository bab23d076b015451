"""Estimators whose slope falls off smoothly around 0."""

from typing import Any

from keras import ops

from dann.checks import check_number
from dann.gradients.estimators.estimator import Estimator, register_estimator


@register_estimator("approx_sign")
class ApproxSign(Estimator):
    """`"approx_sign"`: the sign with the gradient of a piecewise quadratic, Bi-Real Net's.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = 2 (1 - |x|) dL/dy` where `|x| <= 1`, else `0`; the derivative of
      `x (2 - |x|)`

    Reference:
        - [Liu et al., 2018](https://arxiv.org/abs/1808.00278), section 3.3, on the approximated
          derivative of the sign.
    """

    def slope(self, inputs: Any, *extras: Any) -> Any:
        return 2 * (1 - ops.abs(inputs))

    def curve(self, inputs: Any, *extras: Any) -> Any:
        return inputs * (2 - ops.abs(inputs))


@register_estimator("swish_sign")
class SwishSign(Estimator):
    """`"swish_sign"`: the sign with the gradient of SignSwish, smooth and negative far out.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = beta (2 - beta x tanh(beta x / 2)) / (1 + cosh(beta x)) dL/dy`, the
      derivative of `2 s (1 + beta x (1 - s)) - 1` with `s = sigmoid(beta x)`; `0` where
      `|x| > 80 / beta`, where it is below `1e-30 beta`

    Args:
        beta: Steepness, above 0. Defaults to `5.0`, the paper's.

    Reference:
        - [Darabi et al., 2018](https://arxiv.org/abs/1812.11800), section 3, SignSwish.
    """

    def __init__(self, beta: float = 5.0):
        self.beta = check_number("beta", beta, low=0, above=True)

    def inside(self, inputs: Any) -> Any:
        return ops.abs(inputs) <= 80 / self.beta

    def slope(self, inputs: Any, *extras: Any) -> Any:
        x = self.beta * inputs
        # 1 / (1 + cosh x) = 2 sigmoid(x) sigmoid(-x), without the overflow of cosh.
        bell = 2 * ops.sigmoid(x) * ops.sigmoid(-x)
        return self.beta * bell * (2 - x * ops.tanh(x / 2))

    def curve(self, inputs: Any, *extras: Any) -> Any:
        x = self.beta * inputs
        return 2 * ops.sigmoid(x) * (1 + x * ops.sigmoid(-x)) - 1

    def get_config(self) -> dict:
        return {"beta": self.beta}
