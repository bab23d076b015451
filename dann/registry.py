"""Objects by name, registered by the files that define them."""

from collections.abc import Callable
from typing import Any, TypeVar

import keras

T = TypeVar("T")
D = TypeVar("D")  # a decorated object keeps its own type


class Registry(dict[str, T]):
    """Objects of one kind by name.

    Each file registers the objects that it defines. Choices in messages, tables in the
    documentation and lists in tests are derived from the registry, so that a new object needs
    nothing but its file.

    Args:
        saved: Whether the objects are classes that Keras must find when it loads files. Defaults to
            `False`.

    Attributes:
        facts: Facts about each object, by its name.

    Example:

    >>> from dann.registry import Registry
    >>> SCORES = Registry()
    >>> @SCORES.register("zero", reads="target")
    ... def zero(model, *, target):
    ...     return 0.0
    >>> list(SCORES), SCORES["zero"] is zero, SCORES.facts["zero"]
    (['zero'], True, {'reads': 'target'})
    """

    def __init__(self, saved: bool = False):
        super().__init__()
        self.saved = saved
        self.facts: dict[str, dict[str, Any]] = {}

    def register(self, name: str, **facts: Any) -> Callable[[D], D]:
        """Returns a decorator that registers an object by name, with facts about it."""

        def add(registered: Any) -> Any:
            self[name], self.facts[name] = registered, facts
            if self.saved and _is_unknown_to_keras(registered):
                keras.saving.register_keras_serializable("dann")(registered)
            return registered

        return add


def _is_unknown_to_keras(cls):
    """Returns whether neither the class nor another class of its name is registered."""
    is_unregistered = keras.saving.get_registered_name(cls) == cls.__name__
    return is_unregistered and keras.saving.get_registered_object(f"dann>{cls.__name__}") is None
