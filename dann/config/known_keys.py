"""Refuses keys of a config that nothing reads."""

import dataclasses
import re
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dann.config.instantiation import ConfigError

_READ = ("head_rate", "learning_rate")  # by `build_optimizer` and by `conf/optimizer/sgd.yaml`
_GLOBAL = ("experiment", "debug")  # groups whose files set other keys


def check_known(cfg: DictConfig) -> None:
    """Raises `ConfigError` for a key that nothing reads, such as one that `+key=value` adds.

    These are keys outside the script's schema, values of `experiment` and `debug`, parts of a
    network without a `_target_`, and values in `network` that nothing refers to.
    """
    _check_keys(cfg, "A config")
    for group in _GLOBAL:
        if cfg.get(group) is not None:
            raise ConfigError(
                f"{group} must be the name of a file in conf/{group}. Received: {cfg[group]}"
            )
    _check_network(cfg.get("network"), OmegaConf.to_yaml(cfg))


def _check_keys(node: DictConfig, name: str) -> None:
    schema: Any = OmegaConf.get_type(node)
    if not dataclasses.is_dataclass(schema):
        return
    known = [field.name for field in dataclasses.fields(schema)]
    strange = sorted(str(key) for key in node if key not in (*known, "hydra"))
    if strange:
        raise ConfigError(
            f"{name} must hold no keys beside {', '.join(known)}. Received: {', '.join(strange)}"
        )
    for key in known:
        below = node._get_node(key)
        if isinstance(below, DictConfig) and not (below._is_missing() or below._is_interpolation()):
            _check_keys(below, key)


def _check_network(network: Any, text: str) -> None:
    parts: Any = OmegaConf.to_container(network) if network else {}
    for name, part in parts.items():
        if isinstance(part, dict) and "_target_" not in part:
            raise ConfigError(f"network.{name} must have a `_target_`. Received: none in it")
        referred = re.search(rf"\$\{{[\w.]*\b{re.escape(str(name))}\}}", text)
        if not (isinstance(part, dict) or part is None or name in _READ or referred):
            raise ConfigError(
                f"network.{name} must be a part, or what a part refers to. Received: {part!r}"
            )
