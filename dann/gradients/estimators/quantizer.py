from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.checks import check_registered
from dann.gradients.estimators.straight_through import StraightThrough


@keras.saving.register_keras_serializable("dann")
class Quantizer(StraightThrough):
    """Estimator made from a function or layer, with the gradient of the function itself.

    - forward: `y = function(x)`
    - backward: the derivative of the function, or its own `keras.ops.custom_gradient`

    Layers accept the function instead of a name, as the layers of larq accept quantizers. The
    function must work on a tensor of any shape and return a tensor of that shape. It must be
    registered with Keras, so that files can name it.

    Args:
        function: A function, or a `keras.layers.Layer` without weights.

    Raises:
        ValueError: If the function is not registered or has weights.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryDense
    >>> @keras.saving.register_keras_serializable("mine")
    ... def ste_sign(x):
    ...     clipped = keras.ops.clip(x, -1, 1)
    ...     signs = keras.ops.where(x >= 0, 1.0, -1.0)
    ...     return clipped + keras.ops.stop_gradient(signs - clipped)
    >>> layer = BinaryDense(3, input_estimator=ste_sign, kernel_estimator=ste_sign)
    """

    implementations = ("override",)

    def __init__(self, function: Callable[[Any], Any]):
        self.function = function
        check_registered("a quantizer", function)
        # Values from -2 to 2 show whether the quantizer has two levels.
        probe = np.linspace(-2, 2, 10, dtype="float32")
        values: Any = ops.convert_to_numpy(function(ops.convert_to_tensor(probe)))
        if getattr(function, "weights", None):
            raise ValueError(
                "Expected a quantizer without weights, because each kernel and each input is "
                f"quantized by a copy of it. Received: {function!r}"
            )
        self.bits = 1 if np.isin(values, (-1, 1)).all() else 32

    @property
    def functions(self) -> dict[str, Callable]:
        return {"override": self.codes}

    def codes(self, inputs: Any) -> Any:
        return ops.cast(self.function(inputs), inputs.dtype)

    def get_config(self):
        return {"function": keras.saving.serialize_keras_object(self.function)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["function"]))
