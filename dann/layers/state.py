import keras


def add_state(layer: keras.Layer, name: str, dtype: str, value: float) -> keras.Variable:
    """Adds a non-trainable scalar that the layer sets itself, such as its count of steps."""
    return layer.add_weight(
        name=name,
        shape=(),
        dtype=dtype,
        initializer=keras.initializers.Constant(value),
        trainable=False,
        autocast=False,
        aggregation="only_first_replica",
    )
