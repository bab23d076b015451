"""The networks of a method: whether they fit each other, and those that are not given."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import keras

from dann.networks import domain_head as build_domain_head
from dann.networks import label_head as build_label_head

NAMES_OF_ADAPT = {"encoder": "backbone", "task": "label_head", "discriminator": "domain_head"}


class OneCall(keras.layers.Layer):
    """Runs a function of networks as one call, in which Keras keeps the losses of all their layers.

    Keras forgets the losses of a network whenever it is the outermost layer that is called. A step
    on JAX runs the model's `call` alone, where each pass of the backbone would be the outermost.
    """

    def __init__(self, *networks: keras.Layer):
        super().__init__(dtype="float32")
        self.networks = networks
        self.built = True

    def call(self, function):
        return function()


def features_of(backbone: Any, supports_maps: bool) -> tuple[Any, Any]:
    """Returns the symbolic inputs and features of a built backbone.

    Raises:
        TypeError: If it is not a Keras model or layer.
        ValueError: If it is not built, or its features are not one tensor `(batch, num_features)`,
            with `supports_maps` also `(batch, ..., num_features)`; or if they carry a mask.
    """
    check_network("backbone", backbone)
    inputs, features = get_graph(backbone) or _graph_as_built(backbone)
    shape = getattr(features, "shape", ())
    if len(shape) < 2 or shape[-1] is None or (len(shape) > 2 and not supports_maps):
        raise ValueError(
            "The backbone must end in flat features of fixed length `(batch, num_features)`: give "
            "`keras.Sequential([backbone, keras.layers.GlobalAveragePooling2D()])`, or take a "
            f"method that supports maps, such as `DANN`. Received: features of shape {tuple(shape)}"
        )
    # Keras has no public name for the mask of a tensor.
    if getattr(features, "_keras_mask", None) is not None:
        raise ValueError(
            "A discriminator would see the positions that a mask leaves out: pool over time first, "
            "`keras.Sequential([backbone, keras.layers.GlobalAveragePooling1D()])`. Received: "
            "features with a Keras mask"
        )
    return inputs, features


def check_network(name: str, network: Any) -> Any:
    """Returns `network`, the argument called `name`, if it is a Keras model or layer.

    Raises:
        TypeError: If it is neither.
    """
    if not isinstance(network, keras.Layer):
        raise TypeError(f"Argument `{name}` must be a Keras model or layer. Received: {network!r}")
    return network


def get_graph(network: Any) -> tuple[Any, Any] | None:
    """Returns the symbolic inputs and outputs of a functional or built sequential model."""
    try:
        inputs, outputs = network.inputs, network.outputs
    except AttributeError:
        return None
    if isinstance(network, keras.Sequential):
        return inputs[0], outputs[0]
    both = [*keras.tree.flatten(inputs), *keras.tree.flatten(outputs)]
    if not all(isinstance(tensor, keras.KerasTensor) for tensor in both):
        return None
    return network.input, network.output


def fitting_label_head(head: Any, features: Sequence[int | None], num_classes: int | None) -> Any:
    """Returns the label head, built for features of a shape; makes one if it is `None`.

    Of maps, one that is made is a single layer that classifies each position.
    """
    if head is None:
        if num_classes is None:
            raise ValueError("Give `num_classes` or a `label_head`. Received: neither")
        settings: Any = {"hidden_units": ()} if len(features) > 2 else {}
        return build_label_head(_any_size(features), num_classes, **settings)
    found = _output_shape("label_head", head, features)
    found = list(found) if isinstance(found, dict) else found[-1]
    if num_classes not in (None, found):
        raise ValueError(
            f"`num_classes={num_classes}` and the label head must agree. Received: a head with "
            f"{found} outputs"
        )
    return head


def fitting_domain_head(
    head: Any,
    features: Sequence[int | None],
    outputs: Collection[int] = (1,),
    name: str = "domain_head",
) -> Any:
    """Returns the domain head, built for features of a shape; makes one if it is `None`.

    A head that is given must have as many outputs as one of `outputs`, of maps for each position or
    for parts or the whole of an example. One that is made judges each position by itself.
    """
    if head is None:
        return build_domain_head(_any_size(features), name=name)
    found = _output_shape("domain_head", head, features)
    if found[-1] not in outputs:
        wanted = " or ".join(map(str, dict.fromkeys(outputs)))
        raise ValueError(
            f"The domain head must have {wanted} output(s). Received: output shape {found}"
        )
    return head


def second_label_head(name: str, head: Any, model: Any) -> Any:
    """Returns a head with the label head's shapes and weights of its own.

    `None` makes one with the label head's layers. `name` is that of the argument and of a head that
    is made.
    """
    label_head = model.label_head
    if head is None:
        config = _reseeded(label_head.get_config())  # so that initializers with seeds differ too
        config = {**config, "name": name} if "name" in config else config
        head = type(label_head).from_config(config)
    if head is label_head:
        raise ValueError(
            f"Argument `{name}` must have weights of its own. Received: the label head itself"
        )
    wanted, found = (_output_shape(name, one, model.feature_shape) for one in (label_head, head))
    if found != wanted:
        raise ValueError(
            f"Argument `{name}` must have the label head's output shape {wanted}. Received: {found}"
        )
    return head


def copy_network(network: Any) -> Any:
    """Returns a network of the same layers with new weights, built where the network is."""
    if isinstance(network, keras.Sequential) or get_graph(network):
        return keras.models.clone_model(network)
    return keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(network))


def _graph_as_built(network):
    """Symbolic inputs of the shapes that a layer or subclassed model was built for, and outputs."""
    config = network.get_build_config() if network.built else None
    shapes = (config or {}).get("input_shape")
    if not shapes:
        raise ValueError(
            "The backbone must be built: call it on a batch, or `backbone.build((None, 28, 28, 3))`"
            f" with the shape of its inputs. Received: {network.name!r}, which is not"
        )
    inputs = _inputs_of(shapes)
    return inputs, network(inputs)


def _inputs_of(shapes, name=None):
    """Inputs of a structure of shapes; Keras wants those of a dict to be named as their keys."""
    if isinstance(shapes, dict):
        return {key: _inputs_of(shape, key) for key, shape in shapes.items()}
    if all(isinstance(size, int | None) for size in shapes):
        return keras.Input(batch_shape=(None, *shapes[1:]), name=name)
    return [_inputs_of(shape) for shape in shapes]


def _output_shape(name, head, features):
    """The shape of a head's output, or a dict of shapes; Keras refuses features that do not fit."""
    activation = _last_activation(check_network(name, head))
    if activation in (keras.activations.softmax, keras.activations.sigmoid):
        raise ValueError(
            f"Argument `{name}` must give logits, because the losses apply the "
            f"{activation.__name__}. Received: '{head.name}', whose last layer applies it too"
        )
    outputs = head(keras.KerasTensor(features, keras.config.floatx()))
    if isinstance(outputs, dict):
        return {name: tuple(one.shape) for name, one in outputs.items()}
    return tuple(outputs.shape)


def _last_activation(network: Any) -> Callable | None:
    """The function that a network's last layer applies, or `None` if that is not known."""
    last = network
    while (isinstance(last, keras.Sequential) or get_graph(last)) and last.layers:
        last = last.layers[-1]
    if isinstance(last, keras.layers.Softmax):
        return keras.activations.softmax
    return getattr(last, "activation", None)


def _reseeded(config: Any) -> Any:
    if isinstance(config, dict):
        own = {k: v + 1 for k, v in config.items() if k == "seed" and isinstance(v, int)}
        return {**{key: _reseeded(value) for key, value in config.items()}, **own}
    if isinstance(config, list | tuple):
        return type(config)(_reseeded(each) for each in config)
    return config


def _any_size(features: Sequence[int | None]) -> Any:
    """The shape of one example's features; of maps with any size."""
    return (*(None for _ in features[1:-1]), features[-1])
