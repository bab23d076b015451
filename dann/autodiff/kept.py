"""What was made of a function, kept as long as the function lives."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import keras

_made: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def kept(function: Any, key: Hashable, make: Callable) -> Any:
    """Returns what `make` gives for a function: made once where the function cannot change.

    That is so of a Keras model and of a `tf.function` or `jax.jit`, which freeze the Python values
    that they read. A plain function may have come to read other ones since; it gets a new one.

    Args:
        function: Function of tensors or Keras model.
        key: Tells apart what is made of one function.
        make: Takes a function without arguments that returns `function`. What it makes must refer
            to `function` in no other way, or neither is ever freed.
    """
    if not (isinstance(function, keras.Model) or _is_compiled(function)):
        return make(lambda: function)
    made = _made.setdefault(function, {})
    if key not in made:
        made[key] = make(weakref.ref(function))
    return made[key]


def _is_compiled(function):
    # The first is a method of every `tf.function`, the second of what `jax.jit` returns.
    return hasattr(function, "get_concrete_function") or hasattr(function, "clear_cache")
