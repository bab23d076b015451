"""The two-valued sign with a gradient that networks can train with."""

from typing import Any

import keras

from dann.gradients.estimators import Estimator
from dann.gradients.estimators.identifiers import get_estimator


@keras.saving.register_keras_serializable("dann")
def binary_sign(
    inputs: Any,
    implementation: str = "override",
    estimator: str | Estimator = "htanh",
    sharpness: Any = None,
    seed: Any = None,
) -> Any:
    """Returns the sign of `inputs`, +1 or -1, with the gradient of Htanh or another estimator.

    - forward: `y = +1` where `x >= 0`, also at `-0.0`; `y = -1` where `x < 0`; NaN stays NaN
    - backward: `dL/dx = dL/dy` where `|x| <= 1`, both ends included; `0` elsewhere, also
      at NaN

    Subnormal numbers count as zero if the device flushes them.

    The docstring of each estimator contains its slope, which is also 0 at the infinities and at
    NaN. `"ternary"` and `"dorefa"` have more than two values, and `"magnitude_aware"` scales the
    sign. All implementations return the same gradient to the last bit if the slope needs no
    arithmetic (`"htanh"`, `"identity"`, `"magnitude_aware"`, `"stochastic"`, `"ternary"`,
    `"dorefa"` of activations). Otherwise the gradients are equal up to a few roundings of float32
    and the final rounding to the type of the inputs.

    Args:
        inputs: Floating-point tensor of any shape.
        implementation: `"override"`, `"stop_gradient"` or, on TensorFlow and for `"htanh"`,
            `"op_override"`; see `reverse_gradient`. All three agree in value and gradient, also at
            the infinities. Defaults to `"override"`.
        estimator: An object of `dann.gradients.estimators`, or its name. Defaults to `"htanh"`.
        sharpness: `t` of `"ede"` or `o` of `"reste"`: a number above 0, a tensor or a variable.
            Defaults to the last values of their schedules, 10 and 3.
        seed: Source of the random numbers of `"stochastic"`: an integer or a
            `keras.random.SeedGenerator`. With `None` (default) the value is the sign and nothing is
            drawn.

    Returns:
        A tensor of the shape and type of `inputs`.

    Raises:
        TypeError: If `inputs` are not floating.
        ValueError: If `estimator` is unknown or does not support `implementation`, `sharpness` or
            `seed`.

    Example:

    >>> import keras
    >>> from dann.gradients import binary_sign
    >>> [float(value) for value in binary_sign(keras.ops.array([-0.3, 0.0, 2.0]))]
    [-1.0, 1.0, 1.0]

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), equations 1 and 4.
    """
    return get_estimator(estimator)(inputs, implementation, sharpness, seed)
