"""What a config may hold: nothing that would be ignored in silence."""

import dataclasses
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dann.config.instantiation import ConfigError


def check_known(cfg: DictConfig) -> None:
    """Raises `ConfigError` for a key that nothing reads, such as one that `+key=value` adds.

    These are keys beside those of the script's schema, and parts of a network without a `_target_`;
    its other values may be what the parts refer to.
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
    for name, part in (cfg.get("network") or {}).items():
        if isinstance(part, DictConfig) and "_target_" not in part:
            raise ConfigError(f"network.{name} must have a `_target_`. Received: none in it")
