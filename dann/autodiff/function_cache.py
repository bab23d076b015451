"""A cache of a function's compiled programs and checks, which lives as long as the function."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import keras

_cache: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def cached_with(function: Any, key: Hashable, make: Callable) -> Any:
    """Returns what `make` gives for a function, from the cache if the function cannot change.

    A `tf.function` or `jax.jit` cannot change, because it freezes the Python values that it reads;
    nor can a Keras model that has the same layers and variables as before. A plain function may
    read other values by now, so `make` runs at each call.

    Args:
        function: Function of tensors or Keras model.
        key: Key of the result among those of one function.
        make: Takes a function without arguments that returns `function`. What it makes must not
            refer to `function` in another way, or neither is ever freed.
    """
    if not (isinstance(function, keras.Model) or _is_compiled(function)):
        return make(lambda: function)
    entries = _cache.setdefault(function, {})
    if key not in entries or not _has_parts(function, entries[key][0]):
        value = make(weakref.ref(function))
        # A model may have been built by the call, so its parts are listed after it.
        entries[key] = [weakref.ref(part) for part in _parts(function)], value
    return entries[key][1]


def _has_parts(function, references):
    parts = _parts(function)
    return len(references) == len(parts) and all(
        reference() is part for reference, part in zip(references, parts, strict=True)
    )


def _parts(function):
    """Returns the layers and variables of a model, in order."""
    if not isinstance(function, keras.Model):
        return []
    return [*function._flatten_layers(include_self=False), *function.variables]


def _is_compiled(function):
    # Every `tf.function` has the first method, what `jax.jit` returns has the second.
    return hasattr(function, "get_concrete_function") or hasattr(function, "clear_cache")
