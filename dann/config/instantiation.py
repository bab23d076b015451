"""Builds objects from config nodes. Nothing else in the package does so."""

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from omegaconf import OmegaConf

from dann.config.allowed_targets import allowed
from dann.config.config_error import ConfigError
from dann.config.config_values import check_arguments, defaults_of
from dann.config.refused_arguments import as_default

_PACKAGES = ("dann.", "keras.")
_WORDS = ("_target_", "_partial_")


def instantiate(node: Any, group: str, key: str | None = None) -> Any:
    """Builds the object that a config node describes.

    A node names a class or function as `_target_`, and its arguments; `_partial_: true` makes a
    partial function of them. Nested nodes are built first, in their order. Containers become plain
    `dict` and `list`. Everything is checked before anything is built, and resolved text is not
    resolved again.

    Args:
        node: The node.
        group: Group of the config; see `dann.config.allowed_targets`.
        key: Key of the node in the config, for errors. Defaults to the group.

    Raises:
        ConfigError: If the group may not name a target, or a target raises an error.
    """
    plain = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    key = key or group
    return _build(plain, check_targets(plain, group, key), key)


def check_targets(node: Any, group: str, key: str | None = None) -> dict[str, Callable]:
    """Returns the classes or functions that a node names; checks them as `instantiate` does."""
    things = {id(thing): thing for thing in allowed(group)}
    key = key or group
    targets = {name: _find(place, name, group, things) for place, name in targets_of(node, key)}
    check_arguments(node, lambda name: defaults_of(targets[name]), key)
    return targets


def call(key: str, function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Calls a function that a config names, and adds its key to the message of any error.

    Raises:
        ConfigError: If the function raises any error, because libraries raise many kinds.
    """
    try:
        return function(*args, **kwargs)
    except Exception as error:
        told = str(error) or type(error).__name__
        raise ConfigError(f"{key}: {told}") from error


def check_packages(node: Any) -> None:
    """Raises `ConfigError` if a target is in another package, before anything is imported."""
    for place, name in targets_of(node):
        _check_package(place, name)


def _check_package(place, name):
    if not name.startswith(_PACKAGES):
        raise ConfigError(
            f"`_target_` must be in one of {[name[:-1] for name in _PACKAGES]}, because what it "
            f"names is run. Received: {name} of {place}"
        )


def targets_of(node: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yields key and name of every `_target_` in a container; checks each node on the way."""
    if isinstance(node, str) and "${" in node:
        raise ConfigError(f"Text must hold no `${{` once it is resolved. Received: {node} of {key}")
    if isinstance(node, dict):
        words = [
            str(name) for name in node if str(name).startswith("_") and str(name).endswith("_")
        ]
        if set(words) - set(_WORDS) or not isinstance(node.get("_partial_", False), bool):
            raise ConfigError(
                "Of Hydra's keys a node may have `_target_`, and `_partial_` as true or false. "
                f"Received: {', '.join(words)} of {key or node.get('_target_')}"
            )
        if "_target_" in node:
            yield f"{key}._target_", str(node["_target_"])
        parts = [(name, value) for name, value in node.items() if name not in _WORDS]
    else:
        parts = enumerate(node) if isinstance(node, list) else ()
    for name, value in parts:
        yield from targets_of(value, f"{key}.{name}" if key else str(name))


def _find(place: str, name: str, group: str, things: dict[int, Callable]) -> Callable:
    """The class or function of this name, if it is one of `things`."""
    _check_package(place, name)
    try:
        found = things.get(id(_look_up(name)))
    except Exception as error:
        raise ConfigError(f"{place}: {name}: {error}") from error
    if found is None:
        raise ConfigError(
            f"`_target_` must be one of the classes and functions that `{group}` may name, because "
            f"what it names is run. Received: {name} of {place}"
        )
    return found


def _look_up(name: str) -> Any:
    """Returns what a dotted name refers to; attributes come before modules of the same name."""
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for count, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[:count]))
        found = getattr(found, part)
    return found


def _build(node: Any, targets: dict[str, Callable], key: str) -> Any:
    if isinstance(node, list):
        return [_build(value, targets, f"{key}.{place}") for place, value in enumerate(node)]
    if not isinstance(node, dict):
        return node
    parts = {
        name: _build(value, targets, f"{key}.{name}")
        for name, value in node.items()
        if name not in _WORDS
    }
    if "_target_" not in node:
        return parts
    target = targets[str(node["_target_"])]
    defaults = defaults_of(target)
    parts = {name: as_default(value, defaults.get(name)) for name, value in parts.items()}
    if node.get("_partial_"):
        return functools.partial(target, **parts)
    return call(f"{key}: {node['_target_']}", target, **parts)
