"""Steps of DANN by the library ADAPT, which needs Keras 2 (`tf_keras`) as `tensorflow.keras`."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

_KEPT = {
    "Rescaling": ("scale", "offset"),
    "Conv2D": ("filters", "kernel_size", "padding", "use_bias", "activation"),
    "MaxPooling2D": ("pool_size",),
    "BatchNormalization": ("momentum", "epsilon"),
    "ReLU": (),
    "Flatten": (),
    "Dense": ("units", "use_bias", "activation"),
}


def legacy_twin(network: Any, activation: str | None = None) -> Any:
    """Returns the same network, with its weights, in Keras 2.

    Args:
        network: Layers one after the other, each one of those that `dann.networks` uses.
        activation: What the last layer ends in. Defaults to `None`: as in `network`.
    """
    import tf_keras  # pyright: ignore[reportMissingImports]

    twin = tf_keras.Sequential([tf_keras.layers.InputLayer(network.input_shape[1:])])
    for layer in network.layers[1:]:
        name = type(layer).__name__
        if name not in _KEPT:
            raise TypeError(f"Expected a layer of `dann.networks`. Received: {layer!r}")
        config = layer.get_config()
        twin.add(getattr(tf_keras.layers, name)(**{key: config[key] for key in _KEPT[name]}))
    twin.set_weights(network.get_weights())
    if activation is not None:
        twin.add(tf_keras.layers.Activation(activation))
    return twin


def adapt_steps(
    parts: Sequence[keras.Model],
    arrays: Sequence[np.ndarray],
    num_classes: int,
    batch_size: int,
    steps: int,
    rate: float,
) -> Callable[[], Any]:
    """Returns a function that takes steps of ADAPT's `DANN`.

    Args:
        parts: Backbone, label head and domain head.
        arrays: Source inputs, target inputs and source labels.
        num_classes: Number of classes.
        batch_size: Examples of each domain in a step.
        steps: Number of steps of a call.
        rate: Learning rate.
    """
    import tf_keras  # pyright: ignore[reportMissingImports]
    from adapt.feature_based import DANN  # pyright: ignore[reportMissingImports]

    backbone, label_head, domain_head = parts
    count = steps * batch_size
    source, target, labels = (array[:count] for array in arrays)
    one_hot = np.eye(num_classes, dtype="float32")[labels]  # it takes no numbers of classes
    model = DANN(
        legacy_twin(backbone),
        legacy_twin(label_head),
        legacy_twin(domain_head, "sigmoid"),
        lambda_=1.0,
        loss=tf_keras.losses.CategoricalCrossentropy(from_logits=True),
        optimizer=tf_keras.optimizers.SGD(rate),
        metrics=["acc"],
        copy=False,
        verbose=0,
    )
    return lambda: model.fit(source, one_hot, target, epochs=1, batch_size=batch_size, verbose=0)
