"""Objects by name, registered by the files that define them."""

from collections.abc import Callable
from typing import Any, TypeVar

import keras

T = TypeVar("T")
D = TypeVar("D")  # a decorated object keeps its own type


class Registry(dict[str, T]):
    """Objects of one kind by name.

    Each file registers the objects that it defines. Choices in messages, tables in the
    documentation and lists in tests are derived from the registry, so that adding an
    object only requires a new file.

    Args:
        register_with_keras: Whether the objects are classes that Keras must find when it loads
            files. Defaults to `False`.

    Attributes:
        metadata: Properties of each object, by its name.

    Example:

    >>> from dann.registry import Registry
    >>> SCORES = Registry()
    >>> @SCORES.register("zero", reads="target")
    ... def zero(model, *, target):
    ...     return 0.0
    >>> list(SCORES), SCORES["zero"] is zero, SCORES.metadata["zero"]
    (['zero'], True, {'reads': 'target'})
    """

    def __init__(self, register_with_keras: bool = False):
        super().__init__()
        self.register_with_keras = register_with_keras
        self.metadata: dict[str, dict[str, Any]] = {}

    def register(self, name: str, **metadata: Any) -> Callable[[D], D]:
        """Returns a decorator that registers an object by name, with metadata about it."""

        def add(registered: Any) -> Any:
            self[name], self.metadata[name] = registered, metadata
            if self.register_with_keras and _is_unknown_to_keras(registered):
                keras.saving.register_keras_serializable("dann")(registered)
            return registered

        return add


def _is_unknown_to_keras(cls):
    """Returns whether neither the class nor another class of its name is registered."""
    is_unregistered = keras.saving.get_registered_name(cls) == cls.__name__
    return is_unregistered and keras.saving.get_registered_object(f"dann>{cls.__name__}") is None
