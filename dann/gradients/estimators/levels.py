"""Quantizers to more values than two, with a straight-through gradient."""

from typing import Any

import keras
from keras import ops

from dann.checks import check_choice, check_integer, check_number
from dann.gradients.estimators.estimator import Estimator, register_estimator
from dann.gradients.estimators.straight_through import StraightThrough


@register_estimator("ternary")
class Ternary(StraightThrough):
    """`"ternary"`: +1, 0 or -1.

    - forward: `y = +1` where `x > d`, `0` where `|x| <= d`, `-1` where `x < -d`
    - backward: `dL/dx = dL/dy` where `|x| <= 1`, else `0`

    Args:
        threshold: `d`, above 0. Defaults to `0.05`. With `None`, `d = 0.7 mean(|x|)` over the whole
            tensor, which is for kernels.

    Reference:
        - [Li et al., 2016](https://arxiv.org/abs/1605.04711), equations 3 and 6.
    """

    bits = 2

    def __init__(self, threshold: float | None = 0.05):
        self.threshold = (
            None if threshold is None else check_number("threshold", threshold, low=0, above=True)
        )
        self.pooled = threshold is None

    def codes(self, inputs: Any) -> Any:
        wide = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        threshold = 0.7 * ops.mean(ops.abs(wide)) if self.threshold is None else self.threshold
        ones, zeros = ops.ones_like(wide), ops.zeros_like(wide)
        signs = ops.where(wide > threshold, ones, ops.where(wide < -threshold, -ones, zeros))
        # Every comparison with NaN is false: it would give 0.
        unknown = ops.isnan(wide + threshold)
        return ops.cast(ops.where(unknown, wide + threshold, signs), inputs.dtype)

    def get_config(self) -> dict:
        return {"threshold": self.threshold}


@register_estimator("dorefa")
class DoReFa(Estimator):
    """`"dorefa"`: levels of `bits` bits, `n = 2^bits - 1` steps apart.

    With `round_n(a) = floor(n a + 1/2) / n`, mode `"activations"`

    - forward: `y = round_n(min(max(x, 0), 1))`
    - backward: `dL/dx = dL/dy` where `0 <= x <= 1`, else `0`

    and mode `"kernel"`, with `m = max(|tanh(x)|)` over the tensor's finite values,

    - forward: `y = 2 round_n(tanh(x) / (2 m) + 1/2) - 1`
    - backward: `dL/dx = (1 - tanh(x)^2) / m dL/dy` at every finite `x`; `m` gets no gradient

    A half is rounded up, so a kernel of 1 bit is +1 at 0.

    Args:
        bits: Bits of a value, from 1 to 8. Defaults to `2`.
        mode: `"activations"` (default) or `"kernel"`. A binary layer chooses the right one for the
            name.

    Reference:
        - [Zhou et al., 2016](https://arxiv.org/abs/1606.06160), sections 2.2 to 2.4.
    """

    def __init__(self, bits: int = 2, mode: str = "activations"):
        self.bits = check_integer("bits", bits, low=1, high=8)
        self.mode = check_choice("mode", mode, ("activations", "kernel"))
        self.signed = self.pooled = mode == "kernel"

    def inside(self, inputs: Any) -> Any:
        if self.mode == "kernel":
            return ops.abs(inputs) < float("inf")
        return ops.logical_and(inputs >= 0, inputs <= 1)

    def codes(self, inputs: Any) -> Any:
        wide = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        if self.mode == "kernel":
            share = ops.tanh(wide) / (2 * self._greatest(wide)) + 0.5
            values = 2 * self._rounded(ops.clip(share, 0, 1)) - 1
        else:
            values = self._rounded(ops.clip(wide, 0, 1))
        return ops.cast(ops.where(ops.isnan(wide), wide, values), inputs.dtype)

    def slope(self, inputs: Any, *extras: Any) -> Any:
        if self.mode == "activations":
            return ops.ones_like(inputs)
        return (1 - ops.square(ops.tanh(inputs))) / ops.stop_gradient(self._greatest(inputs))

    def curve(self, inputs: Any, *extras: Any) -> Any:
        if self.mode == "activations":
            return inputs
        return ops.tanh(inputs) / ops.stop_gradient(self._greatest(inputs))

    def _greatest(self, inputs):
        finite = ops.abs(inputs) < float("inf")
        greatest = ops.max(ops.abs(ops.tanh(ops.where(finite, inputs, ops.zeros_like(inputs)))))
        return ops.where(greatest > 0, greatest, ops.ones_like(greatest))

    def _rounded(self, shares):
        steps = 2**self.bits - 1
        scaled = steps * shares
        whole = ops.floor(scaled)
        # floor(a + 1/2) would round the number below a half up.
        up = ops.cast(scaled - whole >= 0.5, scaled.dtype)
        # By the reciprocal, as a graph would divide by a constant, for the same levels without one.
        return (whole + up) * (1 / steps)

    def get_config(self) -> dict:
        return {"bits": self.bits, "mode": self.mode}
