"""Augmentation: layers that change the inputs of a domain in training."""

from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import is_continuous, select_parts

# Keras does not compile models with these layers, because XLA lacks an operation that they use on
# TensorFlow. On JAX, the layers consist of operations that XLA supports.
_COMPILED_BY_JAX = (
    keras.layers.RandomPerspective,
    keras.layers.RandomRotation,
    keras.layers.RandomShear,
    keras.layers.RandomTranslation,
    keras.layers.RandomZoom,
)


def augment_pair(
    pair: dict[str, Any], layers: dict[str, keras.Layer], dtype: str, input_dtype: str
) -> dict[str, Any]:
    """Applies the augmentation layer of each domain, then blends the source with the target.

    Floats and bytes are cast to `dtype` first. Larger integers may be word indices, which half
    precision would round, so they are cast to the input type of the network if that type is a
    float. Other tensors, and parts without a layer, are returned unchanged.

    Args:
        pair: Inputs by part, `"source"`, `"target"` and optionally `"target_labeled"`.
        layers: Layers from `make_layers`.
        dtype: Type of the numbers that a layer receives.
        input_dtype: Type of the network's inputs.
    """
    augmented = {}
    for name, part in select_parts(pair).items():
        layer = layers.get("source" if name == "source" else "target")
        if layer is not None:
            part = layer(_cast(part, dtype, input_dtype), training=True)
        augmented[name] = part
    blend = layers.get("blend")
    if blend is not None and "target" in augmented:
        domains = [_cast(augmented[name], dtype, input_dtype) for name in ("source", "target")]
        augmented["source"] = blend(domains, training=True)
    return {**pair, **augmented}


def _cast(part, dtype, input_dtype):
    def cast(tensor):
        if is_continuous(tensor):
            return ops.cast(tensor, dtype)
        is_int = keras.backend.is_int_dtype(keras.backend.standardize_dtype(tensor.dtype))
        return ops.cast(tensor, input_dtype) if is_int and "float" in input_dtype else tensor

    return keras.tree.map_structure(cast, part)


def make_layers(augmentation: dict[str, Any]) -> dict[str, keras.Layer]:
    """Returns one layer per key of `augmentation`.

    A list of layers becomes a `keras.Sequential`; an empty list is omitted.

    Raises:
        ValueError: If a key is unknown.
    """
    unknown = set(augmentation) - {"source", "target", "blend"}
    if unknown:
        raise ValueError(
            "Expected `augmentation` to have the keys 'source', 'target' and 'blend'. "
            f"Received: {sorted(unknown)}."
        )
    layers = {}
    for domain, layer in augmentation.items():
        if isinstance(layer, list | tuple):
            layer = keras.Sequential(layer, name=f"{domain}_augmentation") if layer else None
        if layer is not None:
            layers[domain] = layer
    for layer in layers.values():
        _allow_jax_to_compile(layer)
    return layers


def _allow_jax_to_compile(layer):
    for inner_layer in getattr(layer, "layers", ()):
        _allow_jax_to_compile(inner_layer)
    if keras.backend.backend() == "jax" and type(layer) in _COMPILED_BY_JAX:
        layer.supports_jit = True
