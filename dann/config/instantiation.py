"""Builds objects from config nodes. Nothing else in the package does so.

Whatever a config names is called, so a `_target_` must be on a list: public classes of this package
and of Keras, and the functions that make networks or read data.
"""

import difflib
import functools
import importlib
import inspect
from collections.abc import Collection, Iterator
from typing import Any

import hydra
from omegaconf import OmegaConf

from dann import networks
from dann.data import READERS

_MODULES = (
    "dann",
    "dann.gradients.estimators",
    "dann.layers",
    "dann.optimizers",
    "dann.schedules",
    "keras.callbacks",
    "keras.constraints",
    "keras.initializers",
    "keras.layers",
    "keras.losses",
    "keras.optimizers",
    "keras.optimizers.schedules",
    "keras.regularizers",
)
# Classes that run code or a saved graph, call a function, or send logs to a server.
_LEFT_OUT = {
    "FlaxLayer",
    "JaxLayer",
    "Lambda",
    "LambdaCallback",
    "RemoteMonitor",
    "TFSMLayer",
    "TorchModuleWrapper",
}


class ConfigError(ValueError):
    """A config is wrong; the message says in one line what and where."""


@functools.cache
def reader_names() -> frozenset[str]:
    """Returns what `data` may name."""
    return frozenset(f"dann.data.{reader.__name__}" for reader in READERS.values())


@functools.cache
def target_names() -> frozenset[str]:
    """Returns what all other groups of a config may name."""
    found = {f"dann.networks.{name}" for name in networks.__all__}
    found |= {"dann.diagnostics.Diagnostics", "keras.Sequential"}
    for name in _MODULES:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", dir(module))
        classes = {one for one in public if inspect.isclass(getattr(module, one))}
        found |= {f"{name}.{one}" for one in classes - _LEFT_OUT}
    return frozenset(found)


def instantiate(node: Any, names: Collection[str] | None = None) -> Any:
    """Builds the object that a config node describes, as `hydra.utils.instantiate` does.

    Containers become plain `dict` and `list`, because Keras saves what it is given.

    Args:
        node: A node of a config, or a plain container.
        names: What it may name as `_target_`. Defaults to `None`: `target_names()`.

    Raises:
        ConfigError: If it names anything else.
        hydra.errors.InstantiationException: If a target raises an error.
    """
    check_targets(node, names)
    return hydra.utils.instantiate(node, _convert_="all")


def check_targets(node: Any, names: Collection[str] | None = None) -> None:
    """Raises `ConfigError` if a node names, at any depth, what `instantiate` must not call."""
    names = target_names() if names is None else names
    for target in _targets(as_container(node)):
        if target not in names:
            raise ConfigError(
                "`_target_` must be a public class of dann or keras, or a function of dann.data or "
                f"dann.networks.{did_you_mean(str(target), names)} Received: {target}"
            )


def as_container(node: Any) -> Any:
    """Returns a node of a config as plain containers, its references resolved."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def did_you_mean(word: str, choices: Collection[str]) -> str:
    """Returns a sentence that names at most three of the choices, those most like a word."""
    near = difflib.get_close_matches(word, choices, n=3)
    return f" Did you mean {', '.join(near)}?" if near else ""


def _targets(node: Any) -> Iterator[Any]:
    if isinstance(node, str) and "${" in node:
        raise ConfigError(f"Hydra would resolve this text a second time. Received: {node}")
    if isinstance(node, dict):
        if "_target_" in node:
            yield node["_target_"]
        node = list(node.values())
    for value in node if isinstance(node, list) else ():
        yield from _targets(value)
