"""Steps of DANN by the library ADAPT, which needs Keras 2 (`tf_keras`) as `tensorflow.keras`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rivals import Training

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


def adapt_steps(training: Training) -> Callable[[], Any]:
    """Returns a function that takes the steps of a training by ADAPT's `DANN`."""
    import tf_keras  # pyright: ignore[reportMissingImports]
    from adapt.feature_based import DANN  # pyright: ignore[reportMissingImports]

    backbone, label_head, domain_head = training.parts
    size = training.batch_size
    source, target, labels = (array[: training.steps * size] for array in training.arrays)
    one_hot = np.eye(training.num_classes, dtype="float32")[labels]  # it takes no numbers
    model = DANN(
        legacy_twin(backbone),
        legacy_twin(label_head),
        legacy_twin(domain_head, "sigmoid"),
        lambda_=1.0,
        loss=tf_keras.losses.CategoricalCrossentropy(from_logits=True),
        optimizer=tf_keras.optimizers.SGD(training.rate),
        metrics=["acc"],
        copy=False,
        verbose=0,
    )
    fit: Any = model.fit  # its hints say otherwise
    return lambda: fit(source, one_hot, target, epochs=1, batch_size=size, verbose=0)
