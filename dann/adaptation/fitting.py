"""Whether the parts that a method is given fit each other."""

from collections.abc import Collection, Iterable
from typing import Any

import keras

from dann.networks import domain_head as build_domain_head
from dann.networks import label_head as build_label_head

_BLENDS = (
    "The layer under 'blend' in `augmentation` must make images of the source's shape of "
    "`[source, target]`. Received: "
)
_OF_DISCRIMINATORS = ("strength", "domain_head", "domain_label_smoothing")


def refuse_discriminator(method: type, arguments: Collection[str]) -> None:
    """Refuses arguments of a discriminator that a method has not.

    Args:
        method: Class of the method.
        arguments: Names of those that it does not know itself.

    Raises:
        TypeError: If one of them is of a discriminator.
    """
    found = [name for name in _OF_DISCRIMINATORS if name in arguments]
    if found:
        raise TypeError(
            f"`{method.__name__}` has no domain discriminator to give arguments to; `DANN`, "
            f"`CDAN`, `MADA`, `MDAN` and `PADA` have one. Received: {found}"
        )


def check_network(name: str, network: Any) -> None:
    """Refuses what is no Keras model.

    Raises:
        TypeError: If it is none.
    """
    if not isinstance(network, keras.Model):
        raise TypeError(f"Argument `{name}` must be a Keras model. Received: {network!r}")


def _check_logits(name, head, *functions):
    """Refuses a head that ends in one of the functions."""
    last = head
    while isinstance(last, keras.Model) and last.layers:
        last = last.layers[-1]
    softmax = keras.activations.softmax
    found = softmax if isinstance(last, keras.layers.Softmax) else getattr(last, "activation", None)
    if found in functions:
        raise ValueError(
            f"Argument `{name}` must give logits: losses take the {found.__name__} themselves. "
            f"Received: a network that ends in one, in its layer '{last.name}'"
        )


def fitting_label_head(
    label_head: keras.Model | None, num_features: int, num_classes: int | None
) -> keras.Model:
    """Returns the label head if it fits the features and the classes; builds one if there is none.

    Raises:
        TypeError: If it is no Keras model.
        ValueError: If it does not fit, ends in a softmax, or there is neither a head nor a number
            of classes.
    """
    if label_head is None:
        if num_classes is None:
            raise ValueError("Give `num_classes` or a `label_head`. Received: neither")
        return build_label_head(num_features, num_classes)
    check_network("label_head", label_head)
    _check_logits("label_head", label_head, keras.activations.softmax)
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


def fitting_domain_head(
    head: keras.Model | None,
    length: int,
    outputs: Collection[int] = (1,),
    name: str = "domain_head",
) -> keras.Model:
    """Returns the domain head if it fits what it is given; builds one if there is none.

    Args:
        head: The head that the user gave, or `None`.
        length: Length of what it takes.
        outputs: How many numbers it may give.
        name: Name of a head that is built.

    Raises:
        TypeError: If it is no Keras model.
        ValueError: If it does not fit, or ends in a sigmoid or softmax.
    """
    if head is None:
        return build_domain_head(length, name=name)
    check_network("domain_head", head)
    _check_logits("domain_head", head, keras.activations.sigmoid, keras.activations.softmax)
    if head.input_shape != (None, length) or head.output_shape not in [(None, n) for n in outputs]:
        wanted = " or ".join(map(str, dict.fromkeys(outputs)))
        raise ValueError(
            f"The domain head must take {length} features and have {wanted} output(s). Received: "
            f"input shape {head.input_shape}, output shape {head.output_shape}"
        )
    return head


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


def check_blend(layer: keras.Layer | None, backbone: keras.Model) -> None:
    """Checks that a layer makes of source and target images what the backbone takes.

    Raises:
        ValueError: If it does not.
    """
    if layer is None:
        return
    images = keras.KerasTensor(backbone.input_shape, keras.config.floatx())
    try:
        found: Any = layer([images, images], training=True)
    except Exception as error:
        raise ValueError(f"{_BLENDS}{layer.name}, which does not: {error}") from error
    shapes = [tensor.shape for tensor in keras.tree.flatten(found)]
    if shapes != [images.shape]:
        raise ValueError(f"{_BLENDS}{layer.name}, which gives {shapes}")


def as_layers(augmentation: dict[str, Any]) -> dict[str, keras.Layer]:
    """Returns one layer a domain, and that of both; lists become a `keras.Sequential`.

    Raises:
        TypeError: If one is no layer.
        ValueError: If a domain is unknown.
    """
    unknown = set(augmentation) - {"source", "target", "blend"}
    if unknown:
        raise ValueError(
            "Argument `augmentation` must have layers under 'source', 'target' and 'blend'. "
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
        TypeError: If the backbone is no Keras model.
        ValueError: If they are not flat, or their number is not known.
    """
    check_network("backbone", backbone)
    shape = backbone.output_shape if backbone.built else None
    if shape is None or len(shape) != 2 or shape[-1] is None:
        raise ValueError(
            "The backbone must be built and end in flat features of fixed length "
            "`(batch, num_features)`; a `Flatten` or `GlobalAveragePooling2D` layer makes them. "
            f"Received: output shape {shape}"
        )
    return shape[-1]
