"""How functions of tensors and Keras models are called, and their programs kept."""

import contextlib
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import keras

_programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def as_function(function: Any) -> Callable:
    """Returns `function`; for a Keras model, its call in inference, of several inputs as a list."""
    if isinstance(function, keras.Model):
        return lambda *xs: function(xs[0] if len(xs) == 1 else list(xs), training=False)
    return function


def as_pure_function(function: Any) -> Callable:
    """Returns `as_function(function)` as a function that does not change the state of layers."""

    def pure(*xs):
        with reading_as([]):
            return as_function(function)(*xs)

    return pure


@contextlib.contextmanager
def reading_as(values: Iterable[tuple[keras.Variable, Any]]) -> Iterator[None]:
    """Reads Keras variables as other tensors, and keeps no assignment to any variable.

    The other variables keep the values that a scope around this one gives them, as in Keras's `fit`
    on JAX.
    """
    with keras.StatelessScope(list(values)) as scope:
        if scope.original_scope is not None:
            for variable, value in scope.original_scope.state_mapping.items():
                scope.state_mapping.setdefault(variable, value)
        yield


def call_reading(function: Callable, xs: Iterable[Any], values: Iterable[Any]) -> Any:
    """Returns `function(*values)`, where those of `xs` that are variables are read as the values.

    So a function that reads a variable itself depends on its value, as one that takes it does.
    """
    pairs = zip(xs, values, strict=True)
    variables = [(x, value) for x, value in pairs if isinstance(x, keras.Variable)]
    # A scope would keep no assignment.
    with reading_as(variables) if variables else contextlib.nullcontext():
        return function(*values)


def program_of(function: Any, key: Hashable, make: Callable) -> Any:
    """Returns what `make` gives, kept for a Keras model while its layers and variables stay.

    `make` takes a function without arguments that returns `function`. What it makes must not refer
    to a model in another way, or neither is ever freed.
    """
    if not isinstance(function, keras.Model):
        return make(lambda: function)
    parts = [*function.layers, *function.variables]
    key, programs = (key, *map(id, parts)), _programs.setdefault(function, {})
    if key not in programs:  # the parts are kept too, so that nothing else gets their addresses
        programs[key] = make(weakref.ref(function)), parts
    return programs[key][0]
