"""The config of a run: kept in its directory, compared when it resumes, read afterwards."""

import os
import sys
from collections.abc import Iterator
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from dann.config.instantiation import ConfigError
from dann.config.schema import TrainConfig
from dann.training import RunDirectory

# Settings that may change when a run resumes, because the results do not depend on them.
_FREE = ("resume", "paths", "experiment", "debug", "distribution")
_FREE_OF_TRAINER = ("check_every", "steps_per_execution")
_FREE_CALLBACKS = (
    "keras.callbacks.CSVLogger",
    "keras.callbacks.ModelCheckpoint",
    "keras.callbacks.TensorBoard",
)
_LENGTHS = ("trainer.steps", "trainer.epochs")  # a run is as long as one of them says


def settings_of(cfg: Any) -> dict[str, Any]:
    """Returns the settings that a run's result depends on, by their dotted keys.

    It leaves out `resume`, `paths`, `distribution`, `trainer.check_every`,
    `trainer.steps_per_execution`, the names of experiments, how much callbacks print, and callbacks
    that only write logs or models.

    Args:
        cfg: The composed config of `scripts/train.py`.
    """
    plain: Any = OmegaConf.to_container(cfg)
    plain["paths"] = {key: f"<paths.{key}>" for key in plain["paths"]}  # they may move
    if plain["trainer"].get("epochs") is not None:  # the steps are counted when the data is known
        plain["trainer"]["steps"] = plain["trainer"]["epochs"]
    settings: Any = OmegaConf.to_container(OmegaConf.create(plain), resolve=True)
    for key in _FREE:
        settings.pop(key, None)
    for key in _FREE_OF_TRAINER:
        settings["trainer"].pop(key, None)
    callbacks = settings.get("callbacks") or {}
    settings["callbacks"] = {
        name: {key: value for key, value in node.items() if key != "verbose"}
        for name, node in callbacks.items()
        if node and node.get("_target_") not in _FREE_CALLBACKS
    }
    return dict(_flat(settings))


def is_done(cfg: Any) -> bool:
    """Returns whether the run that `cfg` resumes is already finished, and prints it if so.

    Raises:
        ConfigError: If the run began with other settings. It may become longer, if it has a
            checkpoint and no schedule follows its steps.
    """
    run = RunDirectory(cfg.paths.run_dir)
    if not cfg.resume or not (run.is_finished() or run.has_checkpoints()):
        return False
    now, then = settings_of(cfg), run.settings()
    if then is None:
        print(f"warning: {run.settings_file} is missing, so settings may differ", file=sys.stderr)
        then = now
    changed = {key for key in {**then, **now} if then.get(key) != now.get(key)}
    grown = {key for key in changed & {*_LENGTHS} if _is_longer(then.get(key), now[key])}
    if not run.has_checkpoints():  # it would begin anew
        grown = set()
    told = [f"{key} {then.get(key)} then, {now.get(key)} now" for key in sorted(changed - grown)]
    if told:
        raise ConfigError(
            "A run resumes with the settings that it began with; choose another hydra.run.dir, or "
            f"resume=false to start again. Received: {'; '.join(told)}"
        )
    if grown or not run.is_finished():
        return False
    print(f"Finished already: {run}")
    return True


def keep_config(cfg: Any) -> None:
    """Writes the config of a run that begins into its directory, where Hydra would write it.

    Hydra writes it before anything is checked, over that of an earlier run.
    """
    hydra_cfg: Any = HydraConfig.instance().cfg
    files = {"config": cfg, "hydra": hydra_cfg, "overrides": hydra_cfg.hydra.overrides.task}
    folder = RunDirectory(cfg.paths.run_dir).config_file.parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        OmegaConf.save(content, folder / f"{name}.yaml")


def config_of_run(directory: str | os.PathLike, paths: Any = None) -> Any:
    """Returns the config that a run was made with, to build its data again.

    Args:
        directory: A run directory of `scripts/train.py`.
        paths: `data_dir` and `cache_dir` that replace the run's, unless they are null. Defaults to
            `None`: both are the run's.

    Raises:
        FileNotFoundError: If the config is not there.
        ConfigError: If it cannot be read.
    """
    run = RunDirectory(directory)
    try:
        found = OmegaConf.create(run.config())
        cfg: Any = OmegaConf.merge(OmegaConf.structured(TrainConfig), found)
    except FileNotFoundError:
        raise
    except Exception as error:  # YAML and OmegaConf raise many kinds
        raise ConfigError(f"Cannot read {run.config_file}: {error}") from error
    cfg.paths.run_dir = str(directory)
    for key in ("data_dir", "cache_dir"):
        if paths is not None and paths[key] is not None:
            cfg.paths[key] = paths[key]
    return cfg


def _is_longer(then, now):
    return None not in (then, now) and now > then


def _flat(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    parts = enumerate(node) if isinstance(node, list) else node.items()
    for key, value in parts:
        if isinstance(value, dict | list) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
