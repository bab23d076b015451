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
from dann.config.config_error import ConfigError
from dann.config.config_of_run import config_of_run
from dann.config.instantiation import instantiate
from dann.config.ranking import Ranking
from dann.config.resuming import is_done, settings_of
from dann.config.run_claim import Claim
from dann.config.script import run_script
from dann.config.search_space import scores_of_trials, search_space
from dann.config.settings_digest import digest_of_command, digest_of_run, settings_digest

__all__ = [
    "Claim",
    "ConfigError",
    "Ranking",
    "build_callbacks",
    "build_domains",
    "build_model",
    "build_optimizer",
    "config_of_run",
    "count_steps",
    "digest_of_command",
    "digest_of_run",
    "distribution_of",
    "instantiate",
    "is_done",
    "run_script",
    "schema",
    "scores_of_trials",
    "search_space",
    "settings_digest",
    "settings_of",
    "step_intervals",
]
