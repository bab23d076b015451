"""DANN steps with the library ADAPT, which requires Keras 2 (`tf_keras`) as `tensorflow.keras`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_CONFIG_KEYS = {
    "Rescaling": ("scale", "offset"),
    "Conv2D": ("filters", "kernel_size", "padding", "use_bias", "activation"),
    "MaxPooling2D": ("pool_size",),
    "BatchNormalization": ("momentum", "epsilon"),
    "ReLU": (),
    "Flatten": (),
    "Dense": ("units", "use_bias", "activation"),
}


def legacy_twin(network: Any) -> Any:
    """Returns the same network, with its weights, in Keras 2.

    Args:
        network: Sequence of layers of the classes that `dann.networks` uses.
    """
    import tf_keras  # pyright: ignore[reportMissingImports]

    twin = tf_keras.Sequential([tf_keras.layers.InputLayer(network.input_shape[1:])])
    for layer in network.layers[1:]:
        name, config = type(layer).__name__, layer.get_config()
        twin.add(getattr(tf_keras.layers, name)(**{key: config[key] for key in _CONFIG_KEYS[name]}))
    twin.set_weights(network.get_weights())
    return twin


def adapt_steps(
    parts: Sequence[Any], arrays: Sequence[np.ndarray], batch_size: int, rate: float
) -> Callable[[], Any]:
    """Returns a function that trains ADAPT's `DANN` for one pass over the arrays.

    See `benchmarks.rivals.torch_twin.torch_steps` for the arguments.
    """
    import tf_keras  # pyright: ignore[reportMissingImports]
    from adapt.feature_based import DANN  # pyright: ignore[reportMissingImports]

    backbone, label_head, domain_head = map(legacy_twin, parts)
    domain_head.add(tf_keras.layers.Activation("sigmoid"))
    source, target, labels = arrays
    one_hot = np.eye(label_head.output_shape[-1], dtype="float32")[labels]  # ADAPT needs it
    model = DANN(
        backbone,
        label_head,
        domain_head,
        lambda_=1.0,
        loss=tf_keras.losses.CategoricalCrossentropy(from_logits=True),
        optimizer=tf_keras.optimizers.SGD(rate),
        metrics=["acc"],
        copy=False,
        verbose=0,
    )
    fit: Any = model.fit  # its type hints are wrong
    return lambda: fit(source, one_hot, target, epochs=1, batch_size=batch_size, verbose=0)
