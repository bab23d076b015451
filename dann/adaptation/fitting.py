"""Whether the parts that a method is given fit each other."""

from collections.abc import Iterable
from typing import Any

import keras

from dann.networks import label_head as build_label_head


def fitting_label_head(
    label_head: keras.Model | None, num_features: int, num_classes: int | None
) -> keras.Model:
    """Returns the label head if it fits the features and the classes; builds one if there is none.

    Raises:
        ValueError: If it does not fit, or there is neither a head nor a number of classes.
    """
    if label_head is None:
        if num_classes is None:
            raise ValueError("Give `num_classes` or a `label_head`. Received: neither")
        return build_label_head(num_features, num_classes)
    if label_head.input_shape[-1] != num_features:
        raise ValueError(
            f"The label head must take the backbone's {num_features} features. "
            f"Received: a head for {label_head.input_shape[-1]}"
        )
    if num_classes not in (None, label_head.output_shape[-1]):
        raise ValueError(
            f"`num_classes={num_classes}` and the label head must agree. "
            f"Received: a head with {label_head.output_shape[-1]} outputs"
        )
    return label_head


def check_classes(parts: Iterable[Any], num_classes: int) -> None:
    """Refuses methods and regularizers that compare classes where there is one output.

    Raises:
        ValueError: If one of them is `of_classes` and `num_classes` is 1.
    """
    for part in parts:
        if part.of_classes and num_classes == 1:
            raise ValueError(
                f"`{type(part).__name__}` compares classes, so the label head must have at least 2 "
                "outputs; `DANN`, `MDAN`, `MDD` and `WDGRL` also do regression. "
                "Received: a label head of 1 output"
            )


def as_layers(augmentation: dict[str, Any]) -> dict[str, keras.Layer]:
    """Returns one layer a domain; lists become a `keras.Sequential`.

    Raises:
        TypeError: If one is no layer.
        ValueError: If a domain is unknown.
    """
    unknown = set(augmentation) - {"source", "target"}
    if unknown:
        raise ValueError(
            "Argument `augmentation` must have layers under 'source' and 'target'. "
            f"Received: {sorted(unknown)}"
        )
    found = {}
    for domain, layers in augmentation.items():
        several = layers if isinstance(layers, list | tuple) else [layers]
        if not all(isinstance(layer, keras.Layer) for layer in several):
            raise TypeError(
                "Argument `augmentation` must hold Keras layers, one or a list, by domain. "
                f"Received: {domain}={layers!r}"
            )
        single = several is not layers
        found[domain] = (
            layers if single else keras.Sequential(layers, name=f"{domain}_augmentation")
        )
    return found


def flat_features(backbone: keras.Model) -> int:
    """Returns the number of features that a backbone ends in.

    Raises:
        ValueError: If they are not flat, or their number is not known.
    """
    shape = backbone.output_shape if backbone.built else None
    if shape is None or len(shape) != 2 or shape[-1] is None:
        raise ValueError(
            "The backbone must be built and end in flat features of fixed length "
            "`(batch, num_features)`; a `Flatten` or `GlobalAveragePooling2D` layer makes them. "
            f"Received: output shape {shape}"
        )
    return shape[-1]
