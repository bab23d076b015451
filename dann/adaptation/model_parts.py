"""Checks whether the parts of a method fit each other, and builds those that are not given.

What is not a Keras model raises a `TypeError`, what does not fit a `ValueError`.
"""

import inspect
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import keras
import numpy as np

from dann.adaptation.methods import METHODS, named
from dann.adaptation.plain_network import graph_of, last_activation, shapes_of
from dann.checks import check_integer
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


def refuse_no_strength(method: type, strength: Any) -> None:
    """Raises `TypeError` if a registered method that takes a strength is given `None`.

    A method of a user's own may have no reversal.
    """
    if strength is not None:
        return
    registered = [one for one in METHODS.values() if issubclass(method, one)]
    if any("strength" in inspect.signature(one).parameters for one in registered):
        raise TypeError(
            "Argument `strength` must be a number of at least 0 or a schedule; `SourceOnly` is the "
            f"method without a reversal. Received: strength=None for `{method.__name__}`"
        )


def check_network(name: str, network: Any) -> Any:
    """Returns `network`, the argument called `name`, if it is a Keras model or layer.

    Raises:
        TypeError: If it is neither.
    """
    if not isinstance(network, keras.Layer):
        raise TypeError(f"Argument `{name}` must be a Keras model or layer. Received: {network!r}")
    return network


def _check_logits(name, head, *functions):
    """Raises `ValueError` if a head ends in one of the activation functions."""
    found = last_activation(head)
    if found is not None and found in functions:
        raise ValueError(
            f"Argument `{name}` must give logits, because the losses apply the {found.__name__}. "
            f"Received: '{head.name}', whose last layer applies it too"
        )


def refuse_probabilities(name: str, head: Any, features: Sequence[int | None]) -> None:
    """Raises `ValueError` if a built head gives probabilities, whatever computes them.

    It tries the head on 16 random vectors or maps of the features' shape, with numbers of standard
    deviation 10,000.
    """
    shape = (16, *(size or 8 for size in features[1:]))
    trial = 1e4 * np.random.default_rng(0).standard_normal(shape).astype("float32")
    try:
        outputs: Any = keras.ops.convert_to_numpy(head(keras.ops.convert_to_tensor(trial)))
    except Exception:  # such as a head that takes maps of another size
        return
    between = (outputs >= 0).all() and (outputs <= 1).all() and outputs.any()
    if between and (outputs.shape[-1] == 1 or np.allclose(outputs.sum(axis=-1), 1, atol=1e-2)):
        raise ValueError(
            f"Argument `{name}` must give logits, because the loss takes them. Received: "
            f"'{head.name}', which gives numbers from 0 to 1"
            + (" whose sum is 1" if outputs.shape[-1] > 1 else "")
        )


def _shapes(head: Any, features: Sequence[int | None] | None) -> Any:
    """The shapes of inputs and outputs of a head, which is built for features of that shape."""
    shapes = shapes_of(head)
    if shapes is None and features is not None:
        outputs = head(keras.KerasTensor(features, keras.config.floatx()))
        shapes = shapes_of(head) or (tuple(features), _one_shape(head, outputs))
    if shapes is not None and any(not isinstance(size, int | None) for size in shapes[1]):
        raise _several_outputs(head, len(shapes[1]))
    return shapes


def _one_shape(head, outputs):
    if not hasattr(outputs, "shape"):
        raise _several_outputs(head, len(outputs))
    return tuple(outputs.shape)


def _several_outputs(head, count):
    return ValueError(
        f"A head must give one tensor of logits. Received: {count} outputs of {head.name!r}"
    )


def _fits(taken: Sequence[int | None], features: Sequence[int | None]) -> bool:
    """Whether a network for inputs of one shape takes those of another; `None` is any size."""
    pairs = zip(taken, features, strict=False)
    return len(taken) == len(features) and all(None in (a, b) or a == b for a, b in pairs)


def number_of_classes(
    label_head: Any, num_classes: int | None, features: Sequence[int | None] | None
) -> int:
    """Returns the number of classes: what is given, or that of the label head's outputs."""
    if num_classes is not None:
        num_classes = check_integer("num_classes", num_classes, low=1)
    if label_head is None:
        if num_classes is None:
            raise ValueError("Give `num_classes` or a `label_head`. Received: neither")
        return num_classes
    check_network("label_head", label_head)
    _check_logits("label_head", label_head, keras.activations.softmax)
    shapes = _shapes(label_head, features)
    if num_classes is None and shapes is not None:
        return shapes[1][-1]
    if num_classes is None:
        number = getattr(label_head, "units", "...")
        raise ValueError(
            "Give the number of the label head's outputs too, `label_head=..., "
            f"num_classes={number}`, because neither the backbone nor the label head is built. "
            "Received: a label head without a known number of outputs"
        )
    return num_classes


def fitting_label_head(
    label_head: Any, features: Sequence[int | None], num_classes: int
) -> keras.Layer:
    """Returns the label head if it fits features of that shape; builds one if it is `None`.

    Of maps, one that is built is a single layer that classifies each position.
    """
    if label_head is None:
        if len(features) > 2:
            return build_label_head(_any_size(features), num_classes, hidden_units=())
        return build_label_head(_any_size(features), num_classes)
    inputs, outputs = _shapes(label_head, features)
    if not _fits(inputs, features):
        length, wanted = inputs[-1], f"the backbone's {features[-1]} features"
        if length == features[-1] or len(features) > 2:
            length, wanted = f"shape {inputs}", f"features of shape {tuple(features)}"
        raise ValueError(f"The label head must take {wanted}. Received: a head for {length}")
    if num_classes != outputs[-1]:
        raise ValueError(
            f"`num_classes={num_classes}` and the label head must agree. "
            f"Received: a head with {outputs[-1]} outputs"
        )
    return label_head


def fitting_domain_head(
    head: Any,
    features: Sequence[int | None],
    outputs: Collection[int] = (1,),
    name: str = "domain_head",
) -> keras.Layer:
    """Returns the domain head if it fits; builds one if it is `None`.

    A head that is given must take inputs of the shape of the `features` and give as many logits as
    one of `outputs`, of maps for each position or for parts or the whole of an example. One that is
    built gets the `name` and judges each position by itself.
    """
    if head is None:
        return build_domain_head(_any_size(features), name=name)
    check_network("domain_head", head)
    _check_logits("domain_head", head, keras.activations.sigmoid, keras.activations.softmax)
    taken, given = _shapes(head, features)
    flat = len(features) == 2
    if not _fits(taken, features) or given[-1] not in outputs or flat and len(given) > 2:
        wanted = " or ".join(map(str, dict.fromkeys(outputs)))
        what = f"{features[-1]} features" if flat else f"features of shape {tuple(features)}"
        raise ValueError(
            f"The domain head must take {what} and have {wanted} output(s). Received: "
            f"input shape {taken}, output shape {given}"
        )
    return head


def _any_size(features: Sequence[int | None]) -> int | tuple[int | None, ...]:
    """The features' length, or the shape of one example's maps of any size."""
    if len(features) == 2:
        return features[-1]  # type: ignore[return-value]
    return (None,) * (len(features) - 2) + (features[-1],)


def second_head(head: Any, label_head: keras.Layer, name: str) -> keras.Layer:
    """Returns a head with the label head's shapes and weights of its own.

    `None` builds one with the label head's layers. `name` is that of the argument and of a head
    that is built.
    """
    features = _shapes(label_head, None)[0]
    if head is None:
        head = _like(label_head, name)
        _shapes(head, features)
        return head
    check_network(name, head)
    if head is label_head:
        raise ValueError(
            f"Argument `{name}` must have weights of its own. Received: the label head itself"
        )
    wanted, found = shapes_of(label_head), _shapes(head, features)
    if found != wanted:
        raise ValueError(
            f"Argument `{name}` must have the label head's shapes: input shape {wanted[0]}, output "
            f"shape {wanted[1]}. Received: input shape {found[0]}, output shape {found[1]}"
        )
    return head


def copy_of(network: Any) -> Any:
    """Returns a network of the same layers with new weights, built where the network is."""
    if isinstance(network, keras.Sequential) or graph_of(network):
        return keras.models.clone_model(network)
    return keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(network))


def _like(network, name):
    """A network of the same layers that draws other weights, also where initializers have seeds."""
    config = _reseeded(network.get_config())
    return type(network).from_config({**config, "name": name} if "name" in config else config)


def _reseeded(config: Any) -> Any:
    if isinstance(config, dict):
        own = {k: v + 1 for k, v in config.items() if k == "seed" and isinstance(v, int)}
        return {key: own[key] if key in own else _reseeded(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return type(config)(_reseeded(each) for each in config)
    return config


def check_classes(parts: Iterable[Any], num_classes: int) -> None:
    """Raises `ValueError` if a method or regularizer `of_classes` has a single output."""
    for part in parts:
        if part.of_classes and num_classes == 1:
            raise ValueError(
                f"`{type(part).__name__}` compares classes, so the label head must have at least 2 "
                f"outputs; {named(lambda method: not method.of_classes)} also do regression. "
                "Received: a label head of 1 output"
            )
