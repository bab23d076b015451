"""Everything that uses Hydra: the schema, the command line, and building objects from a config."""

from dann.checks import did_you_mean
from dann.config import schema
from dann.config.building import (
    ConfigError,
    build_callbacks,
    build_domains,
    build_model,
    build_optimizer,
    count_steps,
    distribution_of,
    instantiate,
    step_intervals,
)
from dann.config.runs import (
    Ranking,
    choose_run,
    config_of_run,
    is_done,
    settings_of,
    shared_baseline,
    texts_of,
)
from dann.config.script import script

__all__ = [
    "ConfigError",
    "Ranking",
    "build_callbacks",
    "build_domains",
    "build_model",
    "build_optimizer",
    "choose_run",
    "config_of_run",
    "count_steps",
    "did_you_mean",
    "distribution_of",
    "instantiate",
    "is_done",
    "schema",
    "script",
    "settings_of",
    "shared_baseline",
    "step_intervals",
    "texts_of",
]
