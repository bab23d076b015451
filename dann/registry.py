"""Things of one kind by name, as the files that define them register them."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from dann.checks import check_choice

T = TypeVar("T")
D = TypeVar("D")  # what is decorated keeps its own type


@dataclasses.dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered object and what tables say about it.

    Args:
        name: Its name on the command line and in messages.
        thing: The class, function or object.
        summary: What it does, in one line.
        facts: What else tables and tests need to know, by name.
    """

    name: str
    thing: T
    summary: str
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
    >>> @SCORES.register("zero", summary="Always 0.")
    ... def zero(model, *, target):
    ...     return 0.0
    >>> list(SCORES), SCORES["zero"] is zero, SCORES.entry("zero").summary
    (['zero'], True, 'Always 0.')
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def register(self, name: str, *, summary: str, **facts: Any) -> Callable[[D], D]:
        """Returns a decorator that registers what it is given, and gives it back.

        Args:
            name: The name, which must be free. A module that is loaded again may replace its own.
            summary: What it does, in one line.
            **facts: What else tables and tests need to know.

        Raises:
            ValueError: If the name is taken.
        """

        def add(thing: Any) -> Any:
            old = self._entries.get(name)
            if old is not None and _origin(old.thing) != _origin(thing):
                raise ValueError(
                    f"Each {self.kind} needs a name of its own. Received: {name!r}, which "
                    f"{_origin(old.thing)} has"
                )
            self._entries[name] = Entry(name, thing, summary, facts)
            return thing

        return add

    def entry(self, name: str) -> Entry[T]:
        """Returns an object with what tables say about it.

        Raises:
            ValueError: If there is none of that name; the message lists the names.
        """
        return self._entries[check_choice(self.kind, name, self)]

    def entries(self) -> list[Entry[T]]:
        """Returns all entries by name."""
        return [self._entries[name] for name in self]

    def __getitem__(self, name: str) -> T:
        return self._entries[name].thing

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)


def _origin(thing):
    """Where a thing is defined, alike before and after its module is loaded again."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
