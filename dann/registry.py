"""Things of one kind by name, as the files that define them register them."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from dann.checks import check_choice

T = TypeVar("T")
D = TypeVar("D")  # what is decorated keeps its own type


@dataclasses.dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered object with facts about it.

    Args:
        name: Its name on the command line and in messages.
        thing: The class, function or object.
        facts: What the code that goes through a registry needs to know about it, by name.
    """

    name: str
    thing: T
    facts: Mapping[str, Any]


class Registry(Mapping[str, T]):
    """Things of one kind by name; as a mapping it gives the things themselves.

    A file registers what it defines. Choices in messages, tables in the documentation and rosters
    in tests come from here, so that a new file is all that a new thing takes.

    Args:
        kind: What one of them is called, such as `"score"`.

    Example:

    >>> from dann.registry import Registry
    >>> SCORES = Registry("score")
    >>> @SCORES.register("zero", reads="target")
    ... def zero(model, *, target):
    ...     return 0.0
    >>> list(SCORES), SCORES["zero"] is zero, SCORES.entry("zero").facts
    (['zero'], True, {'reads': 'target'})
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def register(self, name: str, **facts: Any) -> Callable[[D], D]:
        """Returns a decorator that registers what it is given, and gives it back.

        Args:
            name: The name.
            **facts: What code that goes through the registry needs to know.
        """

        def add(thing: Any) -> Any:
            self._entries[name] = Entry(name, thing, facts)
            return thing

        return add

    def entry(self, name: str) -> Entry[T]:
        """Returns an object with the facts about it.

        Raises:
            ValueError: If there is none of that name; the message lists the names.
        """
        if name not in self._entries:
            check_choice(self.kind, name, self)
        return self._entries[name]

    def entries(self) -> list[Entry[T]]:
        """Returns all entries by name."""
        return [self._entries[name] for name in self]

    def __getitem__(self, name: str) -> T:
        return self._entries[name].thing

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
