"""Everything that uses Hydra: the schema, the command line, and building objects from a config."""

from dann.config import schema
from dann.config.building import (
    build_callbacks,
    build_domains,
    build_model,
    build_optimizer,
    count_steps,
    distribution_of,
    step_intervals,
)
from dann.config.instantiation import ConfigError, instantiate
from dann.config.ranking import Ranking
from dann.config.runs import config_of_run, is_done, keep_config, settings_of
from dann.config.script import script

__all__ = [
    "ConfigError",
    "Ranking",
    "build_callbacks",
    "build_domains",
    "build_model",
    "build_optimizer",
    "config_of_run",
    "count_steps",
    "distribution_of",
    "instantiate",
    "is_done",
    "keep_config",
    "schema",
    "script",
    "settings_of",
    "step_intervals",
]
