"""The one door from config nodes to objects."""

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from omegaconf import OmegaConf

from dann.config.allowed_targets import allowed

_PACKAGES = ("dann.", "keras.")
_WORDS = ("_target_", "_partial_")


class ConfigError(Exception):
    """What the user can mend in the command or the files it names."""


def instantiate(node: Any, group: str) -> Any:
    """Builds the object that a config node describes.

    A node names a class or function as `_target_` and its arguments; with `_partial_: true` it
    gives a function that still lacks some of them. Nested nodes are built first, in their order.
    Containers are plain `dict` and `list`. Everything is checked before anything is built, and text
    that was resolved is not resolved again.

    Args:
        node: The node.
        group: Group of the config; see `dann.config.allowed_targets`.

    Raises:
        ConfigError: If a target may not be named in this group, or refuses its arguments.
    """
    plain = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    return _build(plain, check_targets(plain, group))


def check_targets(node: Any, group: str) -> dict[str, Callable]:
    """Returns what the targets of a resolved node are, by name; checks as `instantiate` does."""
    things = {id(thing): thing for thing in allowed(group)}
    return {name: _find(name, group, things) for name in _targets(node)}


def check_packages(node: Any) -> None:
    """Raises `ConfigError` if a target is of another package, before anything is imported."""
    for target in _targets(node):
        if not target.startswith(_PACKAGES):
            raise ConfigError(
                f"`_target_` must be in one of {[name[:-1] for name in _PACKAGES]}, because what "
                f"it names is run. Received: {target}"
            )


def _targets(node: Any) -> Iterator[str]:
    """Every `_target_` in a container, which is checked on the way."""
    if isinstance(node, str) and "${" in node:
        raise ConfigError(f"Text must be whole once it is resolved. Received: {node}")
    if isinstance(node, dict):
        words = [str(key) for key in node if str(key).startswith("_") and str(key).endswith("_")]
        if set(words) - set(_WORDS) or not isinstance(node.get("_partial_", False), bool):
            raise ConfigError(
                "A node must have no words of Hydra but `_target_`, and `_partial_`, which is true "
                f"or false. Received: {', '.join(words)} of {node.get('_target_')}"
            )
        if "_target_" in node:
            yield str(node["_target_"])
        node = [value for key, value in node.items() if key not in _WORDS]
    if isinstance(node, list):
        for value in node:
            yield from _targets(value)


def _find(name: str, group: str, things: dict[int, Callable]) -> Callable:
    """The class or function of this name, if it is one of `things`."""
    check_packages({"_target_": name})
    try:
        found = things.get(id(_look_up(name)))
    except Exception as error:
        raise ConfigError(f"{name}: {error}") from error
    if found is None:
        raise ConfigError(
            f"`_target_` must be one of the classes and functions that `{group}` may name, because "
            f"what it names is run. Received: {name}"
        )
    return found


def _look_up(name: str) -> Any:
    """What a dotted name means; attributes come before modules of the same name."""
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for count, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[:count]))
        found = getattr(found, part)
    return found


def _build(node: Any, targets: dict[str, Callable]) -> Any:
    if isinstance(node, list):
        return [_build(value, targets) for value in node]
    if not isinstance(node, dict):
        return node
    parts = {key: _build(value, targets) for key, value in node.items() if key not in _WORDS}
    if "_target_" not in node:
        return parts
    target = targets[str(node["_target_"])]
    if node.get("_partial_"):
        return functools.partial(target, **parts)
    try:
        return target(**parts)
    except Exception as error:
        raise ConfigError(f"{node['_target_']}: {error}") from error
