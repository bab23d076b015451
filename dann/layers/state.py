from collections.abc import Sequence

import keras


def add_state(
    layer: keras.Layer, name: str, dtype: str, value: float, shape: Sequence[int] = ()
) -> keras.Variable:
    """Adds a non-trainable weight that the layer itself assigns, such as a step counter."""
    return layer.add_weight(
        name=name,
        shape=shape,
        dtype=dtype,
        initializer=keras.initializers.Constant(value),
        trainable=False,
        autocast=False,
        aggregation="only_first_replica",
    )
