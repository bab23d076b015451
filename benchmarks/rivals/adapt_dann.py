"""Steps of DANN by the library ADAPT, which needs Keras 2 (`tf_keras`) as `tensorflow.keras`."""

from collections.abc import Callable, Sequence
from typing import Any

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


def legacy_twin(network: Any) -> Any:
    """Returns the same network, with its weights, in Keras 2.

    Args:
        network: Layers one after the other, each one of those that `dann.networks` uses.
    """
    import tf_keras  # pyright: ignore[reportMissingImports]

    twin = tf_keras.Sequential([tf_keras.layers.InputLayer(network.input_shape[1:])])
    for layer in network.layers[1:]:
        name, config = type(layer).__name__, layer.get_config()
        twin.add(getattr(tf_keras.layers, name)(**{key: config[key] for key in _KEPT[name]}))
    twin.set_weights(network.get_weights())
    return twin


def adapt_steps(
    parts: Sequence[Any], arrays: Sequence[np.ndarray], batch_size: int, rate: float
) -> Callable[[], Any]:
    """Returns a function that takes steps by ADAPT's `DANN`, once through the arrays.

    The arguments are those of `benchmarks.rivals.torch_twin.torch_steps`.
    """
    import tf_keras  # pyright: ignore[reportMissingImports]
    from adapt.feature_based import DANN  # pyright: ignore[reportMissingImports]

    backbone, label_head, domain_head = map(legacy_twin, parts)
    domain_head.add(tf_keras.layers.Activation("sigmoid"))
    source, target, labels = arrays
    one_hot = np.eye(label_head.output_shape[-1], dtype="float32")[labels]  # it takes no numbers
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
    fit: Any = model.fit  # its hints say otherwise
    return lambda: fit(source, one_hot, target, epochs=1, batch_size=batch_size, verbose=0)
