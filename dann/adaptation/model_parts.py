"""Checks whether the parts of a method fit each other, and builds those that are not given.

What is not a Keras model raises a `TypeError`, what does not fit a `ValueError`.
"""

import inspect
from collections.abc import Collection, Iterable
from typing import Any

import keras

from dann.adaptation.methods import named
from dann.networks import domain_head as build_domain_head
from dann.networks import label_head as build_label_head

_OF_DISCRIMINATORS = ("strength", "domain_head", "domain_label_smoothing")


def refuse_discriminator(method: type, arguments: Collection[str]) -> None:
    """Raises `TypeError` if a method without a discriminator is given arguments of one."""
    found = [name for name in _OF_DISCRIMINATORS if name in arguments]
    if found:
        having = named(lambda one: "domain_label_smoothing" in inspect.signature(one).parameters)
        raise TypeError(
            f"`{method.__name__}` has no domain discriminator, so it takes no arguments of one; "
            f"{having} have one. Received: {found}"
        )


def check_network(name: str, network: Any) -> None:
    """Raises `TypeError` unless `network`, the argument called `name`, is a Keras model."""
    if not isinstance(network, keras.Model):
        raise TypeError(f"Argument `{name}` must be a Keras model. Received: {network!r}")


def _check_logits(name, head, *functions):
    """Raises `ValueError` if a head ends in one of the activation functions."""
    last = head
    while isinstance(last, keras.Model) and last.layers:
        last = last.layers[-1]
    softmax = keras.activations.softmax
    found = softmax if isinstance(last, keras.layers.Softmax) else getattr(last, "activation", None)
    if found in functions:
        raise ValueError(
            f"Argument `{name}` must give logits, because the losses apply the {found.__name__}. "
            f"Received: a network whose last layer, '{last.name}', applies it too"
        )


def fitting_label_head(
    label_head: keras.Model | None, num_features: int, num_classes: int | None
) -> keras.Model:
    """Returns the label head if it fits; builds one if it is `None`."""
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
    """Returns the domain head if it fits; builds one if it is `None`.

    A head that is given must take inputs of `length` and give as many logits as one of `outputs`.
    One that is built gets the `name`.
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


def second_head(head: keras.Model | None, label_head: keras.Model, name: str) -> keras.Model:
    """Returns a head with the label head's shapes and weights of its own.

    `None` builds one with the label head's layers. `name` is that of the argument and of a head
    that is built.
    """
    if head is None:
        return type(label_head).from_config({**label_head.get_config(), "name": name})
    check_network(name, head)
    if head is label_head:
        raise ValueError(
            f"Argument `{name}` must have weights of its own. Received: the label head itself"
        )
    wanted = label_head.input_shape, label_head.output_shape
    if (head.input_shape, head.output_shape) != wanted:
        raise ValueError(
            f"Argument `{name}` must have the label head's shapes: input shape {wanted[0]}, output "
            f"shape {wanted[1]}. Received: input shape {head.input_shape}, output shape "
            f"{head.output_shape}"
        )
    return head


def check_classes(parts: Iterable[Any], num_classes: int) -> None:
    """Raises `ValueError` if a method or regularizer `of_classes` has a single output."""
    for part in parts:
        if part.of_classes and num_classes == 1:
            raise ValueError(
                f"`{type(part).__name__}` compares classes, so the label head must have at least 2 "
                f"outputs; {named(lambda method: not method.of_classes)} also do regression. "
                "Received: a label head of 1 output"
            )


def flat_features(backbone: keras.Model) -> int:
    """Returns the number of features that a backbone ends in, which must be flat."""
    check_network("backbone", backbone)
    shape = backbone.output_shape if backbone.built else None
    if shape is None or len(shape) != 2 or shape[-1] is None:
        raise ValueError(
            "The backbone must be built and end in flat features of fixed length "
            "`(batch, num_features)`; a `Flatten` or `GlobalAveragePooling2D` layer makes them. "
            f"Received: output shape {shape}"
        )
    return shape[-1]
