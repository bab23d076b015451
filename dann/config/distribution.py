"""The part of a config that says which devices train."""

from typing import Any

from omegaconf import OmegaConf

from dann.training.distribution import Distribution


def distribution_of(cfg: Any) -> Distribution:
    """Returns how devices share the work of a script; on one, if the config says nothing.

    Raises:
        ValueError: If the config of it is wrong.
    """
    given: Any = OmegaConf.to_container(cfg.get("distribution", OmegaConf.create()))
    return Distribution(**given)
