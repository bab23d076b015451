"""The two-valued sign with a straight-through gradient."""

from typing import Any

from keras import ops

from dann.gradients.override import override_gradient
from dann.gradients.stop_gradient import surrogate_gradient
from dann.gradients.ways import check_way, floating_tensor


def binary_sign(inputs: Any, way: str = "override") -> Any:
    """Returns the sign of `inputs`, +1 or -1, with the gradient of Htanh.

    - forward: `y = +1` where `x >= 0`, also at `-0.0`; `y = -1` where `x < 0`; NaN stays NaN
    - backward: `dL/dx = dL/dy` where `|x| <= 1`, both ends included; `0` elsewhere, also
      at NaN

    Subnormal numbers count as zero where the device flushes them.

    Args:
        inputs: Floating-point tensor of any shape.
        way: `"override"`, `"stop_gradient"` or, on TensorFlow, `"op_override"`; see
            `reverse_gradient`. All three agree in value and gradient, at the infinities too.

    Returns:
        A tensor of the shape and type of `inputs`.

    Raises:
        TypeError: If `inputs` are not floating.
        ValueError: If `way` is unknown.

    Example:

    >>> import keras
    >>> from dann.gradients import binary_sign
    >>> [float(value) for value in binary_sign(keras.ops.array([-0.3, 0.0, 2.0]))]
    [-1.0, 1.0, 1.0]

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), equations 1 and 4.
    """
    return WAYS[check_way(way, WAYS)](floating_tensor(inputs))


def _two_valued_sign(inputs):
    signs = ops.where(inputs >= 0, ops.ones_like(inputs), -ops.ones_like(inputs))
    return ops.where(ops.isnan(inputs), inputs, signs)


def _htanh_gradient(upstream, inputs):
    return ops.where(ops.abs(inputs) <= 1, upstream, ops.zeros_like(upstream))


def _htanh(inputs):
    # JAX gives a clip half a gradient where the input equals a bound.
    bound = ops.stop_gradient(ops.clip(inputs, -1.0, 1.0))
    return ops.where(ops.abs(inputs) <= 1, inputs, bound)


def _by_op_override(inputs):
    from dann.gradients.op_override import sign_op_gradient

    return sign_op_gradient(inputs)


WAYS = {
    "override": override_gradient(_two_valued_sign, _htanh_gradient),
    "stop_gradient": surrogate_gradient(_two_valued_sign, _htanh),
    "op_override": _by_op_override,
}
