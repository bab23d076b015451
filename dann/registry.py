"""Things of one kind by name, as the files that define them register them."""

from collections.abc import Callable
from typing import Any, TypeVar

import keras

T = TypeVar("T")
D = TypeVar("D")  # what is decorated keeps its own type


class Registry(dict[str, T]):
    """Things of one kind by name.

    A file registers what it defines. Choices in messages, tables in the documentation and rosters
    in tests come from here, so that a new file is all that a new thing takes.

    Args:
        saved: Whether the things are classes, which Keras is to find in files. Defaults to `False`.

    Attributes:
        facts: What was said of each thing when it was registered, by its name.

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
        """Returns a decorator that registers what it is given, and gives it back."""

        def add(thing: Any) -> Any:
            self[name], self.facts[name] = thing, facts
            if self.saved and _is_unknown_to_keras(thing):
                keras.saving.register_keras_serializable("dann")(thing)
            return thing

        return add


def _is_unknown_to_keras(thing):
    """Whether neither the class nor another of its name is registered."""
    unnamed = keras.saving.get_registered_name(thing) == thing.__name__
    return unnamed and keras.saving.get_registered_object(f"dann>{thing.__name__}") is None
