"""Checks of what a command gives to a suite."""

from collections.abc import Mapping, Sequence
from typing import Any

from dann.checks import check_choice


def chosen(only: Sequence[str] | None, ways: Sequence[str]) -> Sequence[str]:
    """Returns the names of the ways to measure: those of a list, or all if there is none.

    Raises:
        TypeError: If it is one name and no list.
        ValueError: If there is no way of a name.
    """
    if only is None:
        return ways
    if isinstance(only, str):
        raise TypeError(f"`only` must be a list of names. Received: {only}")
    return [check_choice("only", way, ways) for way in only]


def check_mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Returns an argument that must have values by name.

    Raises:
        TypeError: If it has none.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"`{name}` must have values by name. Received: {value!r}")
    return value
