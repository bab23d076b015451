"""Backbones of every kind that Keras has, for inputs of every kind, and the inputs themselves."""

import keras
import numpy as np
from keras import layers

from dann.layers import BinaryDense

COUNT = 12  # examples of each domain
LABELS = np.arange(COUNT) % 3


def _two(seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(COUNT, width)).astype("float32") for width in (4, 2)]


# The inputs of one domain, by a seed.
INPUTS = {
    "numbers": lambda seed: _two(seed)[0],
    "images": lambda seed: np.random.default_rng(seed).integers(
        0, 255, (COUNT, 32, 32, 3), "uint8"
    ),
    "tokens": lambda seed: np.random.default_rng(seed).integers(0, 9, (COUNT, 5)),
    "dict": lambda seed: dict(zip(("image", "meta"), _two(seed), strict=True)),
    "list": _two,
}


@keras.saving.register_keras_serializable("tests")
class Join(layers.Layer):
    """Two inputs, in a dict or a list, side by side."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.of_image = layers.Dense(4)

    def call(self, inputs):
        image, meta = inputs.values() if isinstance(inputs, dict) else inputs
        return keras.ops.concatenate([self.of_image(image), meta], axis=-1)

    def build(self, input_shape):
        first = input_shape["image"] if isinstance(input_shape, dict) else input_shape[0]
        self.of_image.build(tuple(first))

    def compute_output_shape(self, input_shape):
        return (None, 6)


@keras.saving.register_keras_serializable("tests")
class OwnModel(keras.Model):
    """A subclassed model from inputs of a kind to features."""

    def __init__(self, kind="numbers", units=6, **kwargs):
        super().__init__(**kwargs)
        self.kind, self.units = kind, units
        self.parts = [*body(kind), layers.Dense(units, activation="relu")]

    def call(self, inputs, training=False):
        for part in self.parts:
            inputs = part(inputs)
        return inputs

    def get_config(self):
        return {**super().get_config(), "kind": self.kind, "units": self.units}


def body(kind, recurrent=False):
    """Layers from inputs of a kind to a vector."""
    return {
        "numbers": [layers.Reshape((4, 1)), layers.GRU(4)] if recurrent else [],
        "tokens": [layers.Embedding(9, 4), layers.GRU(4)],
        "dict": [Join()],
        "list": [Join()],
    }[kind]


def entry(kind):
    """The symbolic inputs of a kind."""
    if kind == "dict":
        return {"image": keras.Input((4,), name="image"), "meta": keras.Input((2,), name="meta")}
    return keras.Input((5,), dtype="int32") if kind == "tokens" else keras.Input((4,))


def functional(kind, *last, recurrent=False):
    inputs = outputs = entry(kind)
    for part in [*body(kind, recurrent), *(last or [layers.Dense(6, activation="relu")])]:
        outputs = part(outputs)
    return keras.Model(inputs, outputs)


def sequential(kind):
    return keras.Sequential([entry(kind), *body(kind), layers.Dense(6, activation="relu")])


def called(network, kind):
    network(keras.tree.map_structure(lambda part: part[:2], INPUTS[kind](0)))
    return network


def application(kind):
    options = {"include_top": False, "weights": None, "pooling": "avg", "alpha": 0.25}
    return keras.applications.MobileNet((32, 32, 3), **options)


def loaded(kind, folder):
    functional(kind).save(folder / "of_a_hub.keras")
    return keras.models.load_model(folder / "of_a_hub.keras")


BACKBONES = {
    "functional": lambda kind, folder: functional(kind),
    "Sequential with Input": lambda kind, folder: sequential(kind),
    "subclassed": lambda kind, folder: called(OwnModel(kind), kind),
    "batch norm and dropout": lambda kind, folder: functional(
        kind, layers.BatchNormalization(), layers.Dropout(0.2), layers.Dense(6)
    ),
    "binary": lambda kind, folder: functional(kind, layers.BatchNormalization(), BinaryDense(6)),
    "recurrent": lambda kind, folder: functional(kind, recurrent=True),
    "keras.applications": lambda kind, folder: application(kind),
    "loaded from a file": loaded,
}
