"""Checks of a whole config, before anything is built from it."""

import pathlib
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from dann.checks import check_choice, check_integer, check_number
from dann.config.allowed_targets import GROUPS
from dann.config.config_error import ConfigError
from dann.config.config_values import check_values
from dann.config.instantiation import check_packages, check_targets
from dann.config.known_keys import check_known
from dann.config.node_checks import check_nodes
from dann.config.target_names import check_names, registered_names
from dann.training.preparation import check_trainer

PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16", "float64")


def check_command(cfg: DictConfig) -> None:
    """Checks what can be checked without Keras, which takes seconds to import.

    Raises:
        ConfigError: If a key is unknown or missing, or a value cannot be right.
        TypeError: If a setting of the training has the wrong type.
        ValueError: If one is out of range.
    """
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    overrides = HydraConfig.get().overrides.task
    check_packages(plain)
    check_names(plain)
    check_values(plain)
    _check_paths(cfg)
    _check_given(cfg)
    _check_emptied(cfg, overrides)
    _check_seeds(cfg)
    _check_epochs(cfg, overrides)
    _check_rate(cfg, overrides)
    _check_settings(cfg)


def check_needs(cfg: DictConfig) -> None:
    """Checks that there is what a training needs, without Keras; a finished run needs none of it.

    Raises:
        ConfigError: If something is not there.
    """
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    check_nodes(plain)


def check_objects(cfg: DictConfig) -> None:
    """Checks all targets and arguments once Keras is imported, before any object is built.

    Raises:
        ConfigError: If one is not what its group or its class takes.
    """
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    for group in GROUPS:
        if group in plain:
            check_targets(plain[group], group)


def _check_paths(cfg):
    data_dir = cfg.paths.data_dir
    if data_dir is not None and not pathlib.Path(data_dir).expanduser().is_dir():
        raise ConfigError(f"paths.data_dir must be an existing directory. Received: {data_dir}")
    run = None if OmegaConf.is_missing(cfg, "run") else cfg.get("run")
    if isinstance(run, str) and not pathlib.Path(run).is_dir():
        raise ConfigError(f"run must be a directory that scripts/train.py wrote. Received: {run}")
    # Other scripts look for the config beside the results, where Hydra writes it.
    given, used = pathlib.Path(cfg.paths.run_dir), HydraConfig.get().runtime.output_dir
    if given.resolve() != pathlib.Path(used).resolve():
        raise ConfigError(
            "paths.run_dir only tells where the run is; choose it by hydra.run.dir=, or "
            f"hydra.sweep.dir= with -m. Received: paths.run_dir={given}"
        )


def _check_given(cfg):
    check_known(cfg)
    missing = OmegaConf.missing_keys(cfg)
    if "data" not in missing and OmegaConf.select(cfg, "data.sources"):
        missing.discard("data.source")
    missing = sorted(missing)
    if missing:
        raise ConfigError(f"{', '.join(missing)} must be given. Received: nothing")


def _check_emptied(cfg, overrides):
    """Refuses `key={}`, which Hydra merges with what is there, so that nothing changes."""
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        key = override.key_or_group
        kept = OmegaConf.select(cfg, key) if override.value() == {} else None
        if OmegaConf.is_dict(kept) and kept:
            raise ConfigError(f"{key}={{}} changes nothing; use {key}=null. Received: {key}={{}}")


def _check_seeds(cfg):
    seeds = {f"seeds[{place}]": seed for place, seed in enumerate(cfg.get("seeds", ()))}
    if "seed" in cfg:
        seeds["seed"] = cfg.seed
    for name, seed in seeds.items():
        check_integer(name, seed, 0, 2**32 - 1, why="what NumPy takes for a seed")


def _check_epochs(cfg, overrides):
    """Refuses `trainer.epochs` beside a number of steps, and below 1."""
    epochs = OmegaConf.select(cfg, "trainer.epochs")
    if epochs is None:
        return
    keys = ("trainer.steps=", "trainer.steps_per_epoch=")
    steps = [one for one in overrides if one.lstrip("+").startswith(keys)]
    if steps:
        raise ConfigError(
            "trainer.epochs takes the place of trainer.steps and trainer.steps_per_epoch; give one "
            f"of them. Received: trainer.epochs={epochs} {' '.join(steps)}"
        )
    check_integer("trainer.epochs", epochs, low=1)


def _check_rate(cfg, overrides):
    """Refuses a negative learning rate, and one of the network that the optimizer does not take."""
    rate = OmegaConf.select(cfg, "optimizer.learning_rate")
    if not OmegaConf.is_config(rate) and rate is not None:
        check_number("optimizer.learning_rate", rate, low=0)
    given = [one for one in overrides if one.lstrip("+").startswith("network.learning_rate=")]
    optimizer = OmegaConf.to_yaml(cfg.get("optimizer") or OmegaConf.create(), resolve=False)
    if given and ("network.learning_rate" not in optimizer or cfg.network.learning_rate is None):
        raise ConfigError(
            "network.learning_rate must be a number for an optimizer without a rate of its own, "
            f"such as optimizer=sgd; else set optimizer.learning_rate. Received: {given[0]}"
        )


def _check_settings(cfg):
    """Checks the settings of a training, where the script has them."""
    if "trainer" not in cfg:
        return
    check_integer("target_labelled", cfg.target_labelled, low=0)
    settings = cfg.trainer.copy()
    if cfg.trainer.epochs is not None:  # the numbers of steps are known with the data
        together = settings.steps_per_execution
        settings.steps = settings.steps_per_epoch = 1 if together == "auto" else together
    check_trainer(settings)
    check_choice("trainer.precision", cfg.trainer.precision, PRECISIONS)
    scores = registered_names("selection", "SCORES")
    check_choice("selection.rank_by", cfg.selection.rank_by, (None, "agreement", *scores))
