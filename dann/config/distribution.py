"""The part of a config that says which devices train."""

from typing import Any

from omegaconf import OmegaConf

from dann.training.distribution import Distribution


def distribution_of(cfg: Any) -> Distribution:
    """Returns the distribution that a config asks for; by default everything is on one device.

    Raises:
        ValueError: If the config of it is wrong.
    """
    given: Any = OmegaConf.to_container(cfg.get("distribution", OmegaConf.create()))
    return Distribution(**given)
