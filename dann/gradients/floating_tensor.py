"""The check that a gradient can flow through the inputs."""

from typing import Any

import keras


def floating_tensor(inputs: Any) -> Any:
    """Returns `inputs` as a tensor of the running backend, if a gradient can flow through it.

    Raises:
        TypeError: If the data type is not a floating one: integers would silently get no gradient.
    """
    tensor: Any = keras.ops.convert_to_tensor(inputs)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if "float" not in dtype:
        raise TypeError(
            "Expected a floating-point tensor, because no gradient flows through other types: cast "
            "numbers to float32; token ids pass an embedding first, complex numbers are split into "
            f"real and imaginary parts. Received: dtype={dtype}"
        )
    # A variable, which TensorFlow counts among tensors, is read only by a cast.
    return keras.ops.cast(tensor, dtype)
