"""Networks of a method: checks that they fit each other, and default heads."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import keras

from dann.checks import check_integer
from dann.networks import domain_head as build_domain_head
from dann.networks import label_head as build_label_head

# Arguments of the package `adapt`, and their names in this package.
ADAPT_SYNONYMS = {"encoder": "backbone", "task": "label_head", "discriminator": "domain_head"}


class TrackedCall(keras.layers.Layer):
    """Runs a function as one layer call, so that Keras keeps the losses of all layers in it.

    Keras clears the losses of a network whenever the network is the outermost layer of a call. On
    JAX, a step runs only the `call` of the model, so the backbone would be outermost in each pass.
    """

    def __init__(self, *networks: keras.Layer):
        super().__init__(dtype="float32")
        self.networks = networks
        self.built = True

    def call(self, function):
        return function()


def trace_features(backbone: Any, supports_maps: bool) -> tuple[Any, Any]:
    """Returns the symbolic inputs and features of a built backbone.

    Raises:
        TypeError: If the backbone is not a Keras model or layer.
        ValueError: If the backbone is not built, if the features are not one tensor `(batch,
            num_features)` or, with `supports_maps`, `(batch, ..., num_features)`, or if the
            features carry a mask.
    """
    check_network("backbone", backbone)
    inputs, features = get_graph(backbone) or _trace_built_network(backbone)
    shape = _get_output_shape("backbone", features)
    if shape[-1] is None or (len(shape) > 2 and not supports_maps):
        raise ValueError(
            "Expected flat features of fixed length `(batch, num_features)`. Received: features of "
            f"shape {tuple(shape)}. Use `keras.Sequential([backbone, keras.layers."
            "GlobalAveragePooling2D()])`, or a method that supports maps, such as `DANN`."
        )
    # Keras has no public name for the mask of a tensor.
    if getattr(features, "_keras_mask", None) is not None:
        raise ValueError(
            "Expected features without a mask, because a discriminator would see the masked "
            "positions. Received: features with a Keras mask. Pool over time first: "
            "`keras.Sequential([backbone, keras.layers.GlobalAveragePooling1D()])`."
        )
    return inputs, features


def check_network(name: str, network: Any) -> Any:
    """Returns the argument `name` if it is a Keras model or layer.

    Raises:
        TypeError: If the argument is anything else.
    """
    if not isinstance(network, keras.Layer):
        raise TypeError(
            f"Expected `{name}` to be a Keras model or layer. Received: {network!r}. "
            "`keras.saving.load_model` reads saved models"
        )
    return network


def get_graph(network: Any) -> tuple[Any, Any] | None:
    """Returns the symbolic inputs and outputs of a functional or built sequential model.

    Returns `None` for any other layer or model.
    """
    try:
        inputs, outputs = network.inputs, network.outputs
    except AttributeError:
        return None
    if isinstance(network, keras.Sequential):
        return inputs[0], outputs[0] if len(outputs) == 1 else outputs
    tensors = [*keras.tree.flatten(inputs), *keras.tree.flatten(outputs)]
    if not all(isinstance(tensor, keras.KerasTensor) for tensor in tensors):
        return None
    return network.input, network.output


def make_label_head(head: Any, feature_shape: Sequence[int | None], num_classes: int | None) -> Any:
    """Returns the label head, built for features of a shape.

    Args:
        head: Keras model or layer. `None` creates `dann.networks.label_head`; for maps, a single
            layer that classifies each position.
        feature_shape: Shape of the features.
        num_classes: Number of classes. May be `None` if `head` is not `None`.

    Raises:
        ValueError: If `head` and `num_classes` are `None`, or the head does not have `num_classes`
            outputs.
    """
    if num_classes is not None:
        num_classes = check_integer("num_classes", num_classes, low=1)
    if head is None:
        if num_classes is None:
            raise ValueError("Expected `num_classes` or a `label_head`. Received: neither.")
        options: Any = {"hidden_units": ()} if len(feature_shape) > 2 else {}
        return build_label_head(_get_example_shape(feature_shape), num_classes, **options)
    shape = _compute_output_shape("label_head", head, feature_shape)
    outputs = list(shape) if isinstance(shape, dict) else shape[-1]
    if num_classes not in (None, outputs):
        raise ValueError(
            f"Expected a label head with `num_classes={num_classes}` outputs. Received: a head "
            f"with {outputs} outputs."
        )
    return head


def make_domain_head(
    head: Any,
    feature_shape: Sequence[int | None],
    num_outputs: Collection[int] = (1,),
    name: str = "domain_head",
) -> Any:
    """Returns the domain head, built for features of a shape.

    Args:
        head: Keras model or layer, or a function from the number of input features to a head. Its
            output may cover each position of maps, regions, or the whole example. `None` creates
            `dann.networks.domain_head`, which scores each position of maps separately.
        feature_shape: Shape of the inputs of the head.
        num_outputs: Accepted numbers of outputs.
        name: Name of a default head.

    Raises:
        ValueError: If the head has an unexpected number of outputs.
    """
    if head is None:
        return build_domain_head(_get_example_shape(feature_shape), name=name)
    if callable(head) and not isinstance(head, keras.Layer):
        head = head(feature_shape[-1])
    shape = _compute_output_shape("domain_head", head, feature_shape)
    if shape[-1] not in num_outputs:
        expected = " or ".join(map(str, dict.fromkeys(num_outputs)))
        raise ValueError(
            f"Expected a domain head with {expected} output(s). Received: output shape {shape}."
        )
    return head


def make_second_head(name: str, head: Any, model: Any) -> Any:
    """Returns a head with the shapes of the label head but different weights.

    Args:
        name: Name of the argument, and of a default head.
        head: Keras model or layer. `None` creates a network with the layers of the label head.
        model: The method, with `label_head`, `feature_shape` and `logits_shape`.

    Raises:
        ValueError: If the head is the label head itself, or its output shape differs.
    """
    label_head = model.label_head
    if head is None:
        config = _change_seeds(label_head.get_config())  # so that seeded initializers differ too
        config = {**config, "name": name} if "name" in config else config
        head = type(label_head).from_config(config)
    shape = _compute_output_shape(name, head, model.feature_shape)
    if head is label_head or shape != model.logits_shape:
        received = "the label head itself" if head is label_head else f"output shape {shape}"
        raise ValueError(
            f"Expected `{name}` to have its own weights and the output shape of the label head, "
            f"{model.logits_shape}. Received: {received}."
        )
    return head


def copy_network(network: Any) -> Any:
    """Returns a network of the same layers with new weights, built if the network is built."""
    if isinstance(network, keras.Sequential) or get_graph(network):
        return keras.models.clone_model(network)
    return keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(network))


def _trace_built_network(network):
    """Returns symbolic inputs with the shapes for which a network was built, and its outputs."""
    config = network.get_build_config() if network.built else None
    shapes = (config or {}).get("input_shape")
    if not shapes:
        received = f"built for {config}" if config else "which is not built"
        raise ValueError(
            f"Expected a backbone that is built for one argument. Received: {network.name!r}, "
            f"{received}. Call it on a batch, or call `backbone.build((None, 28, 28, 3))` with its "
            "input shape. Pass several inputs as one dict or list."
        )
    inputs = _make_inputs(shapes)
    return inputs, _call_network("backbone", network, inputs)


def _make_inputs(shapes, name=None):
    """Returns inputs for a structure of shapes; Keras requires the keys of a dict as names."""
    if isinstance(shapes, dict):
        return {key: _make_inputs(shape, key) for key, shape in shapes.items()}
    if all(isinstance(size, int | None) for size in shapes):
        return keras.Input(batch_shape=(None, *shapes[1:]), name=name)
    return [_make_inputs(shape) for shape in shapes]


def _compute_output_shape(name, head, features):
    """Returns the output shape of a head, or a dict of shapes; rejects a head of probabilities."""
    activation = _find_last_activation(check_network(name, head))
    if activation in (keras.activations.softmax, keras.activations.sigmoid):
        raise ValueError(
            f"Expected `{name}` to return logits, because the losses apply the "
            f"{activation.__name__}. Received: '{head.name}', whose last layer applies it too."
        )
    outputs = _call_network(name, head, keras.KerasTensor(features, keras.config.floatx()))
    if isinstance(outputs, dict) and name == "label_head":
        return {key: _get_output_shape(name, output) for key, output in outputs.items()}
    return _get_output_shape(name, outputs)


def _call_network(name, network, inputs):
    """Returns the outputs of a network for its inputs as the only argument."""
    try:
        return network(inputs)
    except TypeError as error:
        if not str(error).startswith("missing a required argument"):
            raise
        raise TypeError(
            f"Expected `{name}(inputs)` to work with one argument. Received: TypeError, {error}. "
            "Give each further argument of its `call` a default, such as `training=False`. Pass "
            "several tensors as one dict or list."
        ) from error


def _get_output_shape(name, output):
    """Returns the shape of one output tensor, and rejects other outputs."""
    if len(getattr(output, "shape", ())) < 2:
        shapes = keras.tree.map_structure(lambda tensor: getattr(tensor, "shape", tensor), output)
        raise ValueError(
            f"Expected `{name}` to have one output tensor `(batch, ..., num_outputs)`. Received: "
            f"output shape {shapes}. Select or join outputs with `keras.Model(inputs, output)`."
        )
    return tuple(output.shape)


def _find_last_activation(network: Any) -> Callable | None:
    """Returns the activation function of the last operation of a network, or `None` if unknown."""
    operation: Any = network
    while (isinstance(operation, keras.Sequential) and operation.layers) or get_graph(operation):
        if len(getattr(operation, "outputs", ())) > 1:
            return None
        is_sequential = isinstance(operation, keras.Sequential)
        operation = (operation.layers if is_sequential else operation.operations)[-1]
    # Keras has no public names for the operations of `keras.ops`.
    functions = {"Softmax": keras.activations.softmax, "Sigmoid": keras.activations.sigmoid}
    return functions.get(type(operation).__name__, getattr(operation, "activation", None))


def _change_seeds(config: Any) -> Any:
    if isinstance(config, dict):
        return {
            key: value + 1 if key == "seed" and isinstance(value, int) else _change_seeds(value)
            for key, value in config.items()
        }
    if isinstance(config, list | tuple):
        return type(config)(map(_change_seeds, config))
    return config


def _get_example_shape(features: Sequence[int | None]) -> Any:
    """Returns the shape of the features of one example; maps have unknown sizes."""
    return (*(None for _ in features[1:-1]), features[-1])
