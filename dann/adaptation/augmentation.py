"""Layers that change the images of a domain in training."""

from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import parts_of

# Keras runs a model with one of these step by step, because XLA lacks TensorFlow's operation for
# them. On JAX they are made of operations that XLA has.
_COMPILED_BY_JAX = (
    keras.layers.RandomPerspective,
    keras.layers.RandomRotation,
    keras.layers.RandomShear,
    keras.layers.RandomTranslation,
    keras.layers.RandomZoom,
)
_MADE_OF_OTHERS = keras.layers.AugMix, keras.layers.RandAugment


def let_jax_compile(layers: Iterable[keras.Layer]) -> None:
    """Marks Keras's image layers that JAX can compile, so that Keras compiles a model with them."""
    layers = list(layers)
    mixed = any(isinstance(layer, _MADE_OF_OTHERS) for layer in layers)
    if keras.backend.backend() != "jax" or mixed:
        return
    for layer in layers:
        if type(layer) in _COMPILED_BY_JAX:
            layer.supports_jit = True


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
    for name, part in parts_of(pair).items():
        layer = layers.get("source" if name == "source" and not oracle else "target")
        changed[name] = part if layer is None else layer(_cast(part, dtype, taken), training=True)
    blend = layers.get("blend")
    if blend is not None and "target" in changed:
        both = [_cast(changed[name], dtype, taken) for name in ("source", "target")]
        changed["source"] = blend(both, training=True)
    return {**pair, **changed}


def _cast(part, dtype, taken):
    def cast(tensor):
        kind = keras.backend.standardize_dtype(tensor.dtype)
        if keras.backend.is_float_dtype(kind) or kind in ("uint8", "int8"):
            return ops.cast(tensor, dtype)
        as_floats = keras.backend.is_int_dtype(kind) and keras.backend.is_float_dtype(taken)
        return ops.cast(tensor, taken) if as_floats else tensor

    return keras.tree.map_structure(cast, part)


def as_layers(augmentation: dict[str, Any]) -> dict[str, keras.Layer]:
    """Returns one layer for each key of `augmentation`; a list becomes a `keras.Sequential`.

    An empty list is left out.

    Raises:
        TypeError: If a value is neither a layer nor a list of layers.
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
        if isinstance(layers, list | tuple) and layers:
            found[domain] = keras.Sequential(layers, name=f"{domain}_augmentation")
        elif isinstance(layers, keras.Layer):
            found[domain] = layers
        elif layers != []:
            raise TypeError(
                "Argument `augmentation` must hold Keras layers, one or a list, by domain. "
                f"Received: {domain}={layers!r}"
            )
    return found
