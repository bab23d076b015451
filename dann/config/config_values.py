"""Checks of a config's values that the classes make too late, or do not make."""

import inspect
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, get_args

from omegaconf import MISSING

from dann.checks import check_flag, check_number, check_text, is_number
from dann.config.allowed_targets import GROUPS
from dann.config.config_error import ConfigError
from dann.config.constructor_checks import arguments_of
from dann.config.refused_arguments import accepted, refusal

_PLACES = ("filename", "filepath", "log_dir", "backup_dir")  # where callbacks write
_NOT_PASSED = {"data": ("sources",), "method": ("teacher",)}  # keys of a node that are no arguments
_OF_ANY_KIND = ("profile_batch",)  # a number by default, but also two as a list or as text


def check_values(config: dict[str, Any]) -> None:
    """Raises `ConfigError` if a value of a plain, resolved config is of the wrong kind or range.

    It knows of the arguments what their text tells, without importing Keras; the rest is found when
    the objects are built.
    """
    for group in GROUPS:
        node = config.get(group)
        check_arguments(node, lambda name: arguments_of(name).defaults, group)
        _check_ranges(node, group)


def _check_ranges(node, key):
    if isinstance(node, list):
        node = {str(place): value for place, value in enumerate(node)}
    if not isinstance(node, dict):
        return
    target = node.get("_target_")
    for check in arguments_of(target).checks if target else ():
        value = node.get(check.name)
        if isinstance(value, bool | int | float | str) or (check.of_lists and value is not None):
            try:
                check.run(value)
            except (TypeError, ValueError) as error:
                raise ConfigError(f"{key}: {error}") from None
    if target:
        _check_constructor(node, key)
    for name, value in node.items():
        _check_ranges(value, f"{key}.{name}")


def _check_constructor(node, key):
    target = node["_target_"]
    apart = ("_target_", "_partial_", *_NOT_PASSED.get(key, ()))
    given = {name: value for name, value in node.items() if name not in apart and value != MISSING}
    taken = accepted(target)
    for name in given.keys() - taken if taken else ():
        known = ", ".join(sorted(taken))
        raise ConfigError(f"{key}: {target} takes {known}. Received: {name}={given[name]!r}")
    error = refusal(target, given, more_later=node.get("_partial_", False))
    if error is not None:
        raise ConfigError(f"{key}: {target}: {error}")


def check_arguments(node: Any, defaults_of: Callable[[str], Mapping[str, Any]], key: str) -> None:
    """Raises `ConfigError` if a value has the wrong kind for its argument; names the key.

    If the default is true or false, so must be the value; if it is a number, the value must be a
    number or a list; if it is text, the value must be text or a number. Every number must be
    finite, and a callback's path must be writable.

    Args:
        node: A resolved node.
        defaults_of: Gives the defaults of a class's or function's arguments, by its name.
        key: Key of the node in the config.
    """
    if isinstance(node, list):
        node = {str(place): value for place, value in enumerate(node)}
    if isinstance(node, dict):
        defaults = defaults_of(node["_target_"]) if "_target_" in node else {}
        for name, value in node.items():
            place = f"{key}.{name}"
            check_arguments(value, defaults_of, place)
            _refuse(_check_kind, place, value, defaults.get(name))
            if key.startswith("callbacks.") and name in _PLACES and "_target_" in node:
                _check_place(place, value, defaults.get(name))
    elif isinstance(node, float):
        _refuse(check_number, key, node)


def defaults_of(target: Callable) -> dict[str, Any]:
    """Returns the defaults of arguments by name; `inspect.Parameter.empty` where there is none.

    It leaves out arguments that have a flag as default but may have other types too.
    """
    return {
        name: parameter.default
        for name, parameter in inspect.signature(target).parameters.items()
        if not (isinstance(parameter.default, bool) and get_args(parameter.annotation))
    }


def _refuse(check, *arguments):
    """Checks an argument, and raises `ConfigError` where the check raises another error."""
    try:
        check(*arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from None


def _check_kind(key, value, default):
    if (isinstance(value, dict) and value) or key.endswith(_OF_ANY_KIND):
        return
    if isinstance(default, bool):
        check_flag(key, value)
    elif value is None or (isinstance(default, str) and is_number(value)):
        return
    elif isinstance(default, int | float) and not (isinstance(value, list) and value):
        check_number(key, value)
    elif isinstance(default, str):
        check_text(key, value)


def _check_place(key, value, default):
    """Checks a file or folder that a callback writes; the folders above it need not exist."""
    if value is None and default is None:
        return
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{key} must be a path; quote numbers. Received: {value!r}")
    path = pathlib.Path(value)
    try:
        path.exists()
    except OSError as error:
        raise ConfigError(f"{key} must be a path: {error.strerror}. Received: {value}") from None
    wants_folder = key.endswith("_dir")
    if path.exists() and path.is_dir() != wants_folder:
        raise ConfigError(
            f"{key} must be a {'folder' if wants_folder else 'file'}. Received: {path}"
        )
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    if (there != path.absolute() and not there.is_dir()) or not os.access(there, os.W_OK):
        raise ConfigError(f"{key} must be where files can be written. Received: {path}")
