"""Straight-through estimators of the sign, and quantizers with more than two levels."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops
from numpy.lib.array_utils import normalize_axis_tuple

from dann.checks import check_choice, check_integer, check_number
from dann.gradients.estimators.estimator import Estimator, register_estimator


class StraightThrough(Estimator):
    """Estimator with slope 1 where `gradient_mask` is true; copies gradients without arithmetic."""

    def slope(self, inputs: Any, *runtime_inputs: Any) -> Any:
        return ops.ones_like(inputs)

    def surrogate_curve(self, inputs: Any, *runtime_inputs: Any) -> Any:
        return inputs

    def backward(self, upstream: Any, inputs: Any, *runtime_inputs: Any) -> Any:
        return ops.where(self.gradient_mask(inputs), upstream, ops.zeros_like(upstream))

    def surrogate(self, inputs: Any, *runtime_inputs: Any) -> Any:
        # Not a clip, because JAX halves the gradient of a clip where the input equals a bound.
        return ops.where(self.gradient_mask(inputs), inputs, ops.zeros_like(inputs))


@register_estimator("htanh")
class Htanh(StraightThrough):
    """`"htanh"`: the sign with the gradient of Htanh, the straight-through estimator of BinaryNet.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = dL/dy` where `|x| <= 1`, else `0`

    Only this estimator supports `implementation="op_override"`.

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), equations 1 and 4.
    """

    implementations = ("override", "stop_gradient", "op_override")

    @property
    def functions(self) -> dict[str, Callable]:
        return {**super().functions, "op_override": _override_op}


def _override_op(inputs):
    from dann.gradients.op_override import sign_op_gradient

    return sign_op_gradient(inputs)


_HTANH = Htanh()


@register_estimator("identity")
class Identity(StraightThrough):
    """`"identity"`: the sign with the gradient of the identity, without a bound on `|x|`.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = dL/dy` at every finite `x`; `0` at the infinities and NaN

    Reference:
        - [Bengio et al., 2013](https://arxiv.org/abs/1308.3432), section 4.
    """

    def gradient_mask(self, inputs: Any) -> Any:
        return ops.abs(inputs) < float("inf")


@register_estimator("magnitude_aware")
class MagnitudeAware(StraightThrough):
    """`"magnitude_aware"`: the sign, scaled by the mean magnitude of its channel.

    - forward: `y = s * sign(x)`, with `s = mean(|x|)` over all axes but `axis`
    - backward: `dL/dx = s * dL/dy` where `|x| <= 1`, else `0`; `s` itself gets no gradient

    It is meant for kernels: each output channel then has one scale, which can be folded into the
    batch normalization that follows. In a channel with an infinite or NaN value, `s` is infinite or
    NaN and the gradient is 0.

    Args:
        axis: Axis or axes of the channels. Defaults to `-1`. A binary layer uses the axes of its
            output channels instead.

    Reference:
        - [Liu et al., 2018](https://arxiv.org/abs/1808.00278), section 3.3, magnitude-aware
          gradient.
        - [Rastegari et al., 2016](https://arxiv.org/abs/1603.05279), equation 6, for the scale of
          each channel.
    """

    arguments = ("axis",)
    depends_on_batch = True

    def __init__(self, axis: int | Sequence[int] = -1):
        self.axis = [axis] if isinstance(axis, int) else list(axis)

    @property
    def code_estimator(self) -> Estimator:
        return _HTANH

    def scale(self, inputs: Any) -> Any:
        rank = len(inputs.shape)
        channel_axes = normalize_axis_tuple(self.axis, rank)
        pooled_axes = tuple(axis for axis in range(rank) if axis not in channel_axes)
        # A sum in float16 could overflow.
        wide = ops.cast(ops.abs(inputs), keras.backend.result_type(inputs.dtype, "float32"))
        return ops.cast(ops.mean(wide, axis=pooled_axes, keepdims=True), inputs.dtype)

    def backward(self, upstream: Any, inputs: Any, *runtime_inputs: Any) -> Any:
        return super().backward(upstream * self._finite_scale(inputs), inputs)

    def surrogate(self, inputs: Any, *runtime_inputs: Any) -> Any:
        return self._finite_scale(inputs) * super().surrogate(inputs)

    def _finite_scale(self, inputs):
        scale = ops.stop_gradient(self.scale(inputs))
        # False for infinity and NaN, so the gradient is 0 there.
        return ops.where(scale < float("inf"), scale, ops.zeros_like(scale))


@register_estimator("stochastic")
class Stochastic(StraightThrough):
    """`"stochastic"`: in training +1 or -1 at random, at inference the sign.

    - forward: in training `y = +1` with probability `min(max((x + 1) / 2, 0), 1)`, else `-1`; at
      inference `y = +1` where `x >= 0`, else `-1`
    - backward: `dL/dx = dL/dy` where `|x| <= 1`, else `0`

    A layer stores the state of its random numbers in a `keras.random.SeedGenerator`, which is saved
    with the model.

    Args:
        seed: Seed of the generator of the layer, an integer. With `None` (default) it depends on
            `keras.utils.set_random_seed`.

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), equations 2 and 3.
    """

    arguments = ("seed",)

    def __init__(self, seed: int | None = None):
        self.seed = None if seed is None else check_integer("seed", seed)

    def __call__(
        self, inputs: Any, implementation: str = "override", sharpness: Any = None, seed: Any = None
    ) -> Any:
        if seed is None:
            return _HTANH(inputs, self.check_implementation(implementation), sharpness)
        return super().__call__(inputs, implementation, sharpness, seed)

    def runtime_inputs(self, inputs: Any, sharpness: Any, seed: Any) -> tuple:
        super().runtime_inputs(inputs, sharpness, None)
        return (keras.random.uniform(ops.shape(inputs), dtype="float32", seed=seed),)

    def forward(self, inputs: Any, draw: Any) -> Any:
        # Equation 2: P(y = +1) = min(max((x + 1) / 2, 0), 1). A draw in [0, 1) needs no clip.
        probability = (ops.cast(inputs, draw.dtype) + 1) / 2
        plus = ops.ones_like(inputs)
        signs = ops.where(draw < probability, plus, -plus)
        return ops.where(ops.isnan(inputs), inputs, signs)


@register_estimator("ternary")
class Ternary(StraightThrough):
    """`"ternary"`: +1, 0 or -1.

    - forward: `y = +1` where `x > d`, `0` where `|x| <= d`, `-1` where `x < -d`
    - backward: `dL/dx = dL/dy` where `|x| <= 1`, else `0`

    Args:
        threshold: `d`, above 0. Defaults to `0.05`. With `None`, `d = 0.7 mean(|x|)` over the whole
            tensor, which is meant for kernels.

    Reference:
        - [Li et al., 2016](https://arxiv.org/abs/1605.04711), equations 3 and 6.
    """

    arguments = ("threshold",)
    bits = 2

    def __init__(self, threshold: float | None = 0.05):
        self.threshold = (
            None
            if threshold is None
            else check_number("threshold", threshold, low=0, exclude_low=True)
        )
        self.depends_on_batch = threshold is None

    def codes(self, inputs: Any) -> Any:
        wide = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        # Equation 6: close to the optimum for weights with a normal or a uniform distribution.
        threshold = 0.7 * ops.mean(ops.abs(wide)) if self.threshold is None else self.threshold
        plus, zeros = ops.ones_like(wide), ops.zeros_like(wide)
        signs = ops.where(wide > threshold, plus, ops.where(wide < -threshold, -plus, zeros))
        # Every comparison with NaN is false, so NaN would become 0.
        is_nan = ops.isnan(wide + threshold)
        return ops.cast(ops.where(is_nan, wide + threshold, signs), inputs.dtype)


@register_estimator("dorefa")
class DoReFa(Estimator):
    """`"dorefa"`: `2^bits` equidistant levels, with `n = 2^bits - 1` steps between them.

    With `round_n(a) = floor(n a + 1/2) / n`, mode `"activations"`

    - forward: `y = round_n(min(max(x, 0), 1))`
    - backward: `dL/dx = dL/dy` where `0 <= x <= 1`, else `0`

    and mode `"kernel"`, with `m = max(|tanh(x)|)` over the tensor's finite values,

    - forward: `y = 2 round_n(tanh(x) / (2 m) + 1/2) - 1`
    - backward: `dL/dx = (1 - tanh(x)^2) / m dL/dy` at every finite `x`; `m` gets no gradient

    A half is rounded up, so a kernel of 1 bit is +1 at 0.

    Args:
        bits: Number of bits of a value, from 1 to 8. Defaults to `2`.
        mode: `"activations"` (default) or `"kernel"`. A binary layer chooses the right mode for the
            name `"dorefa"`.

    Reference:
        - [Zhou et al., 2016](https://arxiv.org/abs/1606.06160), sections 2.2 to 2.4.
    """

    arguments = ("bits", "mode")

    def __init__(self, bits: int = 2, mode: str = "activations"):
        self.bits = check_integer("bits", bits, low=1, high=8)
        self.mode = check_choice("mode", mode, ("activations", "kernel"))
        self.signed = self.depends_on_batch = mode == "kernel"

    def gradient_mask(self, inputs: Any) -> Any:
        if self.mode == "kernel":
            return ops.abs(inputs) < float("inf")
        return ops.logical_and(inputs >= 0, inputs <= 1)

    def codes(self, inputs: Any) -> Any:
        wide = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        if self.mode == "kernel":
            # Section 2.3: tanh limits the range of the weights before they are quantized.
            fraction = ops.tanh(wide) / (2 * self._max_tanh(wide)) + 0.5
            values = 2 * self._round(ops.clip(fraction, 0, 1)) - 1
        else:
            values = self._round(ops.clip(wide, 0, 1))
        return ops.cast(ops.where(ops.isnan(wide), wide, values), inputs.dtype)

    def slope(self, inputs: Any, *runtime_inputs: Any) -> Any:
        if self.mode == "activations":
            return ops.ones_like(inputs)
        return (1 - ops.square(ops.tanh(inputs))) / ops.stop_gradient(self._max_tanh(inputs))

    def surrogate_curve(self, inputs: Any, *runtime_inputs: Any) -> Any:
        if self.mode == "activations":
            return inputs
        return ops.tanh(inputs) / ops.stop_gradient(self._max_tanh(inputs))

    def _max_tanh(self, inputs):
        """Returns `max(|tanh(x)|)` over the finite inputs, or 1 if all are 0."""
        finite = ops.abs(inputs) < float("inf")
        maximum = ops.max(ops.abs(ops.tanh(ops.where(finite, inputs, ops.zeros_like(inputs)))))
        return ops.where(maximum > 0, maximum, ops.ones_like(maximum))

    def _round(self, fractions):
        """Returns the nearest of the levels in [0, 1], and the upper one at a half."""
        steps = 2**self.bits - 1
        scaled = steps * fractions
        floor = ops.floor(scaled)
        # Not `floor(a + 1/2)`, which would round the largest number below a half up.
        increment = ops.cast(scaled - floor >= 0.5, scaled.dtype)
        # A product, because a compiler may replace a division by a constant by this product, and
        # eager and compiled levels must be equal.
        return (floor + increment) * (1 / steps)
