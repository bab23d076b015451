"""Calls of functions and Keras models, and a cache of compiled programs."""

import contextlib
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import keras

_programs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def as_function(function: Any) -> Callable:
    """Returns `function`; for a Keras model, its inference call with several inputs as a list."""
    if isinstance(function, keras.Model):
        return lambda *xs: function(xs[0] if len(xs) == 1 else list(xs), training=False)
    return function


def as_pure_function(function: Any) -> Callable:
    """Returns `as_function(function)` as a function that does not change the state of layers."""

    def pure(*xs):
        with substitute_values([]):
            return as_function(function)(*xs)

    return pure


@contextlib.contextmanager
def substitute_values(values: Iterable[tuple[keras.Variable, Any]]) -> Iterator[None]:
    """Substitutes tensors for Keras variables in a block, and discards all assignments.

    Other variables keep the values of an outer scope, as in Keras's `fit` on JAX.
    """
    with keras.StatelessScope(list(values)) as scope:
        if scope.original_scope is not None:
            for variable, value in scope.original_scope.state_mapping.items():
                scope.state_mapping.setdefault(variable, value)
        yield


def call_with_values(function: Callable, xs: Iterable[Any], values: Iterable[Any]) -> Any:
    """Returns `function(*values)` and substitutes the values for all variables in `xs`.

    The outputs then depend on the value of a variable, whether the function takes or reads it.
    """
    pairs = zip(xs, values, strict=True)
    variables = [(x, value) for x, value in pairs if isinstance(x, keras.Variable)]
    # A scope would discard assignments, so there is none without variables.
    with substitute_values(variables) if variables else contextlib.nullcontext():
        return function(*values)


def get_program(function: Any, key: Hashable, make: Callable) -> Any:
    """Returns a program, which is cached for a Keras model until its layers or variables change.

    Args:
        function: Function or Keras model.
        key: Key of the program in the cache of the model.
        make: Function that builds the program. It receives a function without arguments that
            returns `function`, for a model a weak reference. A strong reference to the model in
            the program would keep both in memory forever.
    """
    if not isinstance(function, keras.Model):
        return make(lambda: function)
    contents = [*function.layers, *function.variables]
    key, programs = (key, *map(id, contents)), _programs.setdefault(function, {})
    if key not in programs:
        # The cache also stores the contents, because the id of a deleted object may be used again.
        programs[key] = make(weakref.ref(function)), contents
    return programs[key][0]
