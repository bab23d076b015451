"""A backbone and a label head as one plain Keras model, as soon as their inputs are known."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from dann.adaptation.masks import run
from dann.adaptation.methods import named

POOLING = {3: "GlobalAveragePooling1D()", 4: "GlobalAveragePooling2D()"}
POOLING[5] = "GlobalAveragePooling3D()"


class PlainNetwork:
    """The inputs and features of a backbone, as far as they are known, and its classifier.

    A functional backbone says at once what its inputs are, and so does any backbone that is built.
    All others show it at the first batch, which `see` is given. No Keras object: the backbone and
    the heads belong to the model that holds it.

    Args:
        backbone: Any Keras model or layer.
        takes_maps: Whether features may have axes between the first and the last.
    """

    def __init__(self, backbone: keras.Layer, takes_maps: bool = False):
        self.backbone, self.takes_maps = backbone, takes_maps
        self.feature_shape: tuple[int | None, ...] | None = None
        self.specs: Any = None  # symbolic tensors like the inputs, where there is no graph
        self._waiting: list[Callable[[], None]] | None = []
        self._classifier: Any = None

    def begin(self) -> None:
        """Finds the number of features, if the backbone can tell it."""
        if graph_of(self.backbone) is not None:
            self._take(graph_of(self.backbone)[1])
            return
        specs = _built_for(self.backbone)
        if specs is None:
            return
        try:
            features = self.backbone(specs)
        except Exception:  # such as one that takes strings, which its shapes do not tell
            return
        self.specs = specs
        self._take(features)

    @property
    def num_features(self) -> int | None:
        """Length of the last axis of the features, once it is known."""
        return None if self.feature_shape is None else self.feature_shape[-1]

    @property
    def inputs(self) -> Any:
        """Symbolic tensors like the inputs, once they are known."""
        graph = graph_of(self.backbone)
        return self.specs if graph is None else graph[0]

    def when_known(self, make: Callable[[], None]) -> None:
        """Calls `make()` as soon as the number of features is known, at once if it is."""
        if self._waiting is None:
            make()
        else:
            self._waiting.append(make)

    def see(self, inputs: Any) -> None:
        """Learns the types and sizes of inputs, if there is no graph that tells them."""
        if self._waiting is None and graph_of(self.backbone) is not None:
            return
        seen = keras.tree.map_structure(_spec, _untracked(inputs))
        specs = seen if self.specs is None else _joined(self.specs, seen)
        features = None if self._waiting is None else self.backbone(specs)
        if specs is not self.specs:
            self.specs, self._classifier = specs, None
        if features is not None:
            self._take(features)

    def get_config(self) -> dict[str, Any] | None:
        """Returns the shapes and types of inputs that there is no graph for, if they are known."""
        if self.specs is None:
            return None
        shapes = keras.tree.map_structure(lambda spec: spec.shape, self.specs)
        return {
            "shapes": shapes,
            "dtypes": keras.tree.map_structure(lambda spec: spec.dtype, self.specs),
        }

    def see_config(self, config: dict[str, Any]) -> None:
        """Sees inputs as `get_config` tells them."""
        config = _untracked(config)
        shapes = keras.tree.map_shape_structure(keras.KerasTensor, config["shapes"])
        self.see(
            keras.tree.map_structure(
                lambda spec, dtype: keras.KerasTensor(spec.shape, dtype), shapes, config["dtypes"]
            )
        )

    def _take(self, features):
        self.feature_shape = shape_of_features(features, self.takes_maps)
        waiting, self._waiting = self._waiting or [], None
        try:
            for make in waiting:
                make()
        except Exception:
            self.feature_shape, self.specs, self._waiting = None, None, waiting
            raise

    def classifier(self, label_head: keras.Layer) -> keras.Model:
        """Returns the backbone and the label head as one functional model.

        Raises:
            ValueError: If the inputs are not known yet.
        """
        if self._classifier is None:
            if self._waiting is not None:
                raise ValueError(
                    "The classifier is known from the first batch on, because the backbone is not "
                    "built: call `fit`, or `model(inputs[:1])`. Received: a model that has seen no "
                    "inputs"
                )
            inputs, features = graph_of(self.backbone) or self._run()
            self._classifier = keras.Model(
                inputs, run(label_head, features, None), name="classifier"
            )
        return self._classifier

    def _run(self):
        inputs = keras.tree.map_structure(_input, self.specs)
        if isinstance(self.specs, dict):  # Keras wants inputs to be named as their keys
            flat = {k: v for k, v in self.specs.items() if isinstance(v, keras.KerasTensor)}
            inputs |= {key: _input(spec, key) for key, spec in flat.items()}
        return inputs, self.backbone(inputs)


def graph_of(network: Any) -> tuple[Any, Any] | None:
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


def last_activation(network: Any) -> Callable | None:
    """Returns the function that a network's last layer applies, or `None` if that is not known."""
    last = network
    while (isinstance(last, keras.Sequential) or graph_of(last)) and last.layers:
        last = last.layers[-1]
    if isinstance(last, keras.layers.Softmax):
        return keras.activations.softmax
    return getattr(last, "activation", None)


def input_specs(network: Any) -> Any:
    """Returns symbolic tensors like a network's inputs, or `None` if they are not known."""
    graph = graph_of(network)
    return graph[0] if graph else _built_for(network)


def shapes_of(network: Any) -> tuple[Any, Any] | None:
    """Returns the shapes of a network's inputs and outputs if it is built, otherwise `None`."""
    graph = graph_of(network)
    if graph is None:
        specs = _built_for(network)
        if specs is None:
            return None
        graph = specs, network.compute_output_spec(specs)
    inputs, outputs = graph
    return _shape_of(inputs), _shape_of(outputs)


def _shape_of(tensors: Any) -> Any:
    return keras.tree.map_structure(lambda tensor: tuple(tensor.shape), tensors)


def shape_of_features(features: Any, maps: bool = False) -> tuple[int | None, ...]:
    """Returns the shape of features, if they are one tensor `(batch, num_features)`.

    With `maps` it may also be `(batch, ..., num_features)`.

    Raises:
        ValueError: If they are not; the message shows what to write.
    """
    shape = getattr(features, "shape", None)
    if shape is not None and shape[-1:] != (None,) and (len(shape) == 2 or maps and len(shape) > 2):
        return tuple(shape)
    if shape is None:
        found = f"outputs of {type(features).__name__}"
        write = "a model or layer that returns one tensor"
    else:
        found = f"output shape {tuple(shape)}"
        last = pooling(shape) if len(shape) > 2 else "Reshape((num_features,))"
        write = f"`keras.Sequential([backbone, keras.layers.{last}])`"
    others = f"; {named(lambda method: method.takes_maps)} also take maps"
    raise ValueError(
        "The backbone must end in flat features of fixed length `(batch, num_features)`: give "
        f"{write} as the backbone{'' if maps else others}. Received: {found}"
    )


def pooling(shape: Sequence[int | None]) -> str:
    """Returns the Keras layer, as it is written, that makes maps of this shape flat."""
    return POOLING.get(len(shape), "Flatten()")


def _built_for(network):
    """Symbolic tensors of the shapes that a layer or subclassed model was built for."""
    built = isinstance(network, keras.Layer) and network.built
    config = network.get_build_config() if built else None
    shapes = (config or {}).get("input_shape")
    if not shapes:
        return None
    return keras.tree.map_shape_structure(
        lambda shape: keras.KerasTensor((None, *shape[1:]), keras.config.floatx()),
        _untracked(shapes),
    )


def _untracked(structure: Any) -> Any:
    """The same structure without the containers that Keras and TensorFlow put around it."""
    if isinstance(structure, dict):
        return {key: _untracked(value) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        return (list if isinstance(structure, list) else tuple)(map(_untracked, structure))
    return structure


def _input(spec, name=None):
    return keras.Input(batch_shape=spec.shape, dtype=spec.dtype, name=name)


def _spec(tensor):
    tensor = tensor if hasattr(tensor, "dtype") else np.asarray(tensor)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if keras.backend.is_float_dtype(dtype):
        dtype = keras.config.floatx()
    return keras.KerasTensor((None, *tensor.shape[1:]), dtype)


def _joined(known, seen):
    """Symbolic tensors that fit the known inputs and the new ones; the known if they fit both."""
    try:
        keras.tree.assert_same_structure(known, seen)
    except (TypeError, ValueError):
        return seen
    joined = keras.tree.map_structure(_join, known, seen)
    old, new = (keras.tree.flatten(one) for one in (known, joined))
    return known if all(one is other for one, other in zip(old, new, strict=True)) else joined


def _join(known, seen):
    if len(known.shape) != len(seen.shape):
        return seen
    sizes = [a if a == b else None for a, b in zip(known.shape, seen.shape, strict=True)]
    if tuple(sizes) == tuple(known.shape) and known.dtype == seen.dtype:
        return known
    return keras.KerasTensor(tuple(sizes), seen.dtype)
