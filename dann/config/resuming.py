"""Decides whether a command continues a run, before any large library is loaded."""

import sys
from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf

from dann.checks import is_integer
from dann.config.config_error import ConfigError
from dann.training.run_directory import RunDirectory

# Settings that may change when a run resumes, because the results do not depend on them.
_FREE = ("resume", "paths", "experiment", "debug", "distribution")
_FREE_CALLBACKS = (
    "keras.callbacks.CSVLogger",
    "keras.callbacks.ModelCheckpoint",
    "keras.callbacks.TensorBoard",
)
_FREE_OF_TRAINER = ("check_every", "steps_per_execution")
_LENGTHS = ("trainer.steps", "trainer.epochs")  # a run is as long as one of them says


def settings_of(cfg: Any) -> dict[str, Any]:
    """Returns the settings that must stay the same when a run resumes, by their dotted keys.

    It leaves out `resume`, `paths`, `distribution`, `trainer.check_every`,
    `trainer.steps_per_execution`, the names of experiments, how much callbacks print, and callbacks
    that only write logs or models.

    Args:
        cfg: The composed config of `scripts/train.py`.
    """
    settings = _resolved(cfg)
    for key in _FREE:
        settings.pop(key, None)
    for key in _FREE_OF_TRAINER:
        settings["trainer"].pop(key, None)
    callbacks = settings.get("callbacks") or {}
    for name, node in list(callbacks.items()):
        if isinstance(node, dict):
            node.pop("verbose", None)
            if node.get("_target_") in _FREE_CALLBACKS:
                del callbacks[name]
        if not node:
            del callbacks[name]
    return dict(_flat(settings))


def is_done(cfg: Any) -> bool:
    """Returns whether the run that `cfg` resumes is already finished, and prints it if so.

    Raises:
        ConfigError: If the run began with other settings, or must become longer without a
            checkpoint. Its config file, which Hydra has already overwritten, is restored.
    """
    run = RunDirectory(cfg.paths.run_dir)
    if not cfg.resume or not (run.is_finished() or run.has_checkpoints()):
        return False
    now = settings_of(cfg)
    then = run.settings()
    if then is None:
        print(
            f"warning: {run.settings_file} is missing, so the settings that the run began with "
            "are not compared with those given now",
            file=sys.stderr,
        )
    then = then or now
    changed = {
        key: (then.get(key, "none"), now.get(key, "none"))
        for key in {**then, **now}
        if then.get(key, "none") != now.get(key, "none")
    }
    changed.pop("trainer.steps_per_execution", None)  # runs of earlier versions compared it
    grown = {key: changed.pop(key) for key in _LENGTHS if key in changed}
    if grown and not _may_grow(cfg, grown):
        changed = {**grown, **changed}
    if changed:
        told = "; ".join(f"{key} {old} then, {new} now" for key, (old, new) in changed.items())
        more = (
            " (`trainer.steps` or `trainer.epochs` may grow only if no schedule follows the steps "
            "and an epoch stays as long)"
            if grown
            else ""
        )
        raise ConfigError(
            f"A run must be resumed with the settings that it began with{more}; choose another "
            f"hydra.run.dir, or resume=false to start again. Received: {told}"
        )
    if grown and not run.has_checkpoints():
        raise ConfigError(
            "A finished run is made longer from its last checkpoint; choose another hydra.run.dir, "
            f"or resume=false to start again. Received: no checkpoints in {run}"
        )
    if grown or not run.is_finished():
        return False
    print(f"Finished already: {run}")
    return True


def _resolved(cfg):
    """The config without its directories, which may move."""
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    plain["paths"] = {key: f"<paths.{key}>" for key in plain["paths"]}
    settings: Any = OmegaConf.to_container(OmegaConf.create(plain), resolve=True)
    return settings


def _may_grow(cfg, grown):
    """Whether the old and new lengths only lengthen the run, and nothing else follows them."""
    if not all(is_integer(old) and is_integer(new) and new > old for old, new in grown.values()):
        return False
    if "trainer.epochs" in grown:  # the steps are counted when the data is known
        plain: Any = OmegaConf.to_container(cfg, resolve=False)
        return not any("trainer.steps}" in str(value) for _, value in _flat(plain))
    return cfg.trainer.steps_per_epoch <= grown["trainer.steps"][0]


def _flat(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    parts = enumerate(node) if isinstance(node, list) else node.items()
    for key, value in parts:
        if isinstance(value, dict | list) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
