"""The one door from config nodes to objects."""

from typing import Any

from hydra.errors import HydraException
from hydra.utils import get_object
from hydra.utils import instantiate as hydra_instantiate
from omegaconf import OmegaConf

TRUSTED = ("dann.", "keras.")


class ConfigError(Exception):
    """What the user can mend in the command or the files it names."""


def instantiate(node: Any, **kwargs: Any) -> Any:
    """Builds the object that a config node describes.

    Args:
        node: Node with `_target_`, a class or function of a trusted package.
        **kwargs: Arguments that are known at run time only.

    Returns:
        The object; nested nodes are built first and containers are plain `dict` and `list`.

    Raises:
        ConfigError: If a target is not in a trusted package, cannot be found, or refuses its
            arguments.
    """
    container = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    check_targets(container)
    try:
        _check_origins(container)
        return hydra_instantiate(container, _convert_="all", **kwargs)
    except (HydraException, ImportError) as error:
        cause = error.__cause__ or error
        raise ConfigError(f"{_target_names(container)}: {cause}") from error


def _targets(node):
    """Every `_target_` in a container."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield str(node["_target_"])
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from _targets(value)


def check_targets(node: Any) -> None:
    """Refuses targets by their names alone, before anything is imported.

    Raises:
        ConfigError: If one is not in a trusted package.
    """
    for target in _targets(node):
        if not target.startswith(TRUSTED):
            _refuse(target)


def _check_origins(node):
    """Refuses what a trusted module has only imported, such as `dann.config.os.system`."""
    for target in _targets(node):
        if not f"{getattr(get_object(target), '__module__', '')}.".startswith(TRUSTED):
            _refuse(target)


def _refuse(target):
    raise ConfigError(
        f"`_target_` must be in one of {[prefix[:-1] for prefix in TRUSTED]}, because what it "
        f"names is run. Received: {target}"
    )


def _target_names(node):
    return node.get("_target_", "config") if isinstance(node, dict) else "config"
