"""Refuses keys of a config that nothing reads."""

import dataclasses
import re
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dann.config.instantiation import ConfigError

_READ = ("head_rate",)  # by `build_optimizer`


def check_known(cfg: DictConfig) -> None:
    """Raises `ConfigError` for a key that nothing reads, such as one that `+key=value` adds.

    These are keys beside those of the script's schema, parts of a network without a `_target_`, and
    its values that no part and no optimizer refers to.
    """
    schema: Any = OmegaConf.get_type(cfg)
    if dataclasses.is_dataclass(schema):
        known = [field.name for field in dataclasses.fields(schema)]
        strange = sorted(str(key) for key in cfg if key not in (*known, "hydra"))
        if strange:
            raise ConfigError(
                f"A config must hold no keys beside {', '.join(known)}. "
                f"Received: {', '.join(strange)}"
            )
    _check_network(cfg.get("network"), OmegaConf.to_yaml(cfg))


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
