"""Layers that change the images of a domain in training."""

from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import is_movable, select_parts

# Keras runs a model with one of these step by step, because XLA lacks TensorFlow's operation for
# them. On JAX they are made of operations that XLA has.
_COMPILED_BY_JAX = (
    keras.layers.RandomPerspective,
    keras.layers.RandomRotation,
    keras.layers.RandomShear,
    keras.layers.RandomTranslation,
    keras.layers.RandomZoom,
)


def augmented(
    pair: dict[str, Any], layers: dict[str, keras.Layer], oracle: bool, dtype: str, taken: str
) -> dict[str, Any]:
    """Returns a pair with each part changed by the layer of its domain, then the source blended.

    Numbers reach a layer as `dtype`. Integers of more than a byte, which half precision would round
    and which may be words, reach it as the type that the network takes if that is one of floats.
    All else stays as it is, and so does a part without a layer.

    Args:
        pair: The pair.
        layers: What `as_layers` returned.
        oracle: Whether the part called `"source"` is the target.
        dtype: Type of numbers.
        taken: Type that the network takes.
    """
    changed = {}
    for name, part in select_parts(pair).items():
        layer = layers.get("source" if name == "source" and not oracle else "target")
        changed[name] = part if layer is None else layer(_cast(part, dtype, taken), training=True)
    blend = layers.get("blend")
    if blend is not None and "target" in changed:
        both = [_cast(changed[name], dtype, taken) for name in ("source", "target")]
        changed["source"] = blend(both, training=True)
    return {**pair, **changed}


def _cast(part, dtype, taken):
    def cast(tensor):
        if is_movable(tensor):
            return ops.cast(tensor, dtype)
        is_int = keras.backend.is_int_dtype(keras.backend.standardize_dtype(tensor.dtype))
        return ops.cast(tensor, taken) if is_int and "float" in taken else tensor

    return keras.tree.map_structure(cast, part)


def as_layers(augmentation: dict[str, Any]) -> dict[str, keras.Layer]:
    """Returns one layer for each key of `augmentation`; a list becomes a `keras.Sequential`.

    An empty list is left out.

    Raises:
        ValueError: If a key is unknown.
    """
    unknown = set(augmentation) - {"source", "target", "blend"}
    if unknown:
        raise ValueError(
            "Argument `augmentation` must have layers under 'source', 'target' and 'blend'. "
            f"Received: {sorted(unknown)}"
        )
    found = {}
    for domain, layers in augmentation.items():
        if isinstance(layers, list | tuple):
            layers = keras.Sequential(layers, name=f"{domain}_augmentation") if layers else None
        if layers is not None:
            found[domain] = layers
    for layer in found.values():
        _let_jax_compile(layer)
    return found


def _let_jax_compile(layer):
    for inner in getattr(layer, "layers", ()):
        _let_jax_compile(inner)
    if keras.backend.backend() == "jax" and type(layer) in _COMPILED_BY_JAX:
        layer.supports_jit = True
