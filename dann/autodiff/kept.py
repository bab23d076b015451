"""What was made of a function, kept as long as the function lives."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import keras

_made: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def kept(function: Any, key: Hashable, make: Callable) -> Any:
    """Returns what `make` gives for a function: made once where the function cannot change.

    That is so of a `tf.function` or `jax.jit`, which freeze the Python values that they read, and
    of a Keras model as long as it has the same layers and variables. A plain function may have come
    to read other values since; it gets a new one.

    Args:
        function: Function of tensors or Keras model.
        key: Tells apart what is made of one function.
        make: Takes a function without arguments that returns `function`. What it makes must refer
            to `function` in no other way, or neither is ever freed.
    """
    if not (isinstance(function, keras.Model) or _is_compiled(function)):
        return make(lambda: function)
    made = _made.setdefault(function, {})
    if key not in made or not _is_of(made[key][0], function):
        value = make(weakref.ref(function))
        # What is built at the first call is there only now.
        made[key] = [weakref.ref(part) for part in _parts(function)], value
    return made[key][1]


def _is_of(references, function):
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
    # The first is a method of every `tf.function`, the second of what `jax.jit` returns.
    return hasattr(function, "get_concrete_function") or hasattr(function, "clear_cache")
