"""Layers that change the images of a domain in training."""

from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from dann.adaptation.forward_pass import parts_of

_BLEND = (
    "Argument `augmentation` must have a layer under 'blend' that turns `[source, target]` into "
    "images of the source's shape. Received: "
)

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
    """Marks Keras's image layers that JAX can compile, so that Keras compiles a model with them.

    It does nothing on other backends, nor for classes derived from these layers, nor if there is an
    `AugMix` or a `RandAugment`, which are made of such layers. `compile(jit_compile=False)` keeps
    such a model from being compiled.
    """
    layers = list(layers)
    if keras.backend.backend() != "jax":
        return
    if any(isinstance(layer, _MADE_OF_OTHERS) for layer in layers):
        return
    for layer in layers:
        if type(layer) in _COMPILED_BY_JAX:
            layer.supports_jit = True


def augmented(
    pair: dict[str, Any], layers: dict[str, keras.Layer], oracle: bool, dtype: str, specs: Any
) -> dict[str, Any]:
    """Returns a pair with each part changed by the layer of its domain, then the source blended.

    Floats and bytes reach their layer as numbers of type `dtype`. Other numbers become what the
    network takes, if it takes floats; those of words stay as they are, and so do texts. A part
    without a layer does not change.

    Args:
        pair: The pair.
        layers: What `as_layers` returned.
        oracle: Whether the part called `"source"` is the target.
        dtype: The type.
        specs: Symbolic tensors like the inputs of the network.
    """

    def given(part):
        kind = _type_for_layer(part, dtype, specs)
        return part if kind is None else ops.cast(part, kind)

    changed = {}
    for name, part in parts_of(pair).items():
        layer = layers.get("source" if name == "source" and not oracle else "target")
        changed[name] = part if layer is None else layer(given(part), training=True)
    blend = layers.get("blend")
    if blend is not None and "target" in changed:
        both = [given(changed[name]) for name in ("source", "target")]
        changed["source"] = blend(both, training=True)
    return {**pair, **changed}


def _type_for_layer(part, dtype, specs):
    """The type in which a part reaches a layer; `None` if it stays as it is."""
    if not (ops.is_tensor(part) or hasattr(part, "dtype")):
        return None
    kind = keras.backend.standardize_dtype(part.dtype)
    if keras.backend.is_float_dtype(kind) or kind in ("uint8", "int8"):
        return dtype
    # Half precision would round an integer of more bits.
    taken = getattr(specs, "dtype", "int32")
    return taken if keras.backend.is_float_dtype(taken) else None


def check_blend(layer: keras.Layer | None, inputs: Any) -> None:
    """Raises `ValueError` unless a layer turns `[source, target]` into images like `inputs`."""
    if layer is None:
        return
    images = keras.tree.map_structure(
        lambda spec: keras.KerasTensor(spec.shape, keras.config.floatx()), inputs
    )
    try:
        found: Any = layer([images, images], training=True)
    except Exception as error:
        raise ValueError(f"{_BLEND}{layer.name}, which fails: {error}") from error
    shapes = [tensor.shape for tensor in keras.tree.flatten(found)]
    if shapes != [spec.shape for spec in keras.tree.flatten(inputs)]:
        raise ValueError(f"{_BLEND}{layer.name}, which gives {shapes}")


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
        several = layers if isinstance(layers, list | tuple) else [layers]
        if not all(isinstance(layer, keras.Layer) for layer in several):
            raise TypeError(
                "Argument `augmentation` must hold Keras layers, one or a list, by domain. "
                f"Received: {domain}={layers!r}"
            )
        if not several:
            continue
        single = several is not layers
        found[domain] = (
            layers if single else keras.Sequential(layers, name=f"{domain}_augmentation")
        )
    return found
