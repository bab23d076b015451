"""A digest of a run's settings: equal settings have equal digests."""

import functools
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

from hydra import compose
from omegaconf import OmegaConf

from dann.config.constructor_text import constructors_of, defaults_in
from dann.training import RunDirectory

_NOT_OF_THE_RESULT = {"seed", "paths", "hydra", "compare", "resume"}
_OF_THE_TRAINER = {"check_every"}  # does not change results
_OF_THE_DATA = {"cache"}  # nor does this
_LOOKING_ON = {  # callbacks that only observe the training
    "dann.diagnostics.Diagnostics",
    "dann.optimizers.FlipRatio",
    "keras.callbacks.CSVLogger",
    "keras.callbacks.ModelCheckpoint",
    "keras.callbacks.TensorBoard",
}
# The scores that `all` meant at first, so that a score that is added later changes no digest.
_ALL_SCORES = [
    *("source_accuracy", "entropy", "info_max", "snd", "bnm"),
    *("mcc", "dev", "mix_val", "reverse_validation"),
]


def settings_digest(cfg: Any) -> str:
    """Returns a digest of the settings, without the seed, that a run's result depends on.

    Options that are off do not count, so that adding an option changes no earlier digest. Off means
    null, empty, or, for arguments of this package, false or 0, unless the argument is on by
    default. (In other packages false or 0 may differ from the default.) Callbacks that only observe
    the training do not count, nor does where decoded images are kept.
    """
    settings: Any = OmegaConf.to_container(cfg, resolve=False)
    left_out = set(_NOT_OF_THE_RESULT)
    if not settings.get("selection", {}).get("keep"):
        left_out.add("selection")  # the scores then have no effect on the result
    elif settings["selection"]["scores"] == ["all"]:
        settings["selection"]["scores"] = _ALL_SCORES
    kept = {key: value for key, value in settings.items() if key not in left_out}
    trainer = settings.get("trainer", {}).items()
    kept["trainer"] = {key: value for key, value in trainer if key not in _OF_THE_TRAINER}
    data = settings.get("data", {})
    if data.get("_target_", "").startswith("dann."):
        kept["data"] = {key: value for key, value in data.items() if key not in _OF_THE_DATA}
    if kept["trainer"].get("jit_compile") == "auto":
        del kept["trainer"]["jit_compile"]
    if kept["trainer"].get("steps_per_execution") == "auto":  # the same weights as one by one
        kept["trainer"]["steps_per_execution"] = 1
    callbacks = settings.get("callbacks", {}).items()
    kept["distribution"] = {**kept.get("distribution", {})}
    if kept["distribution"].get("kind") is None:
        del kept["distribution"]
    kept["network"], kept["optimizer"] = _with_rate(cfg, settings)
    kept["callbacks"] = {k: v for k, v in callbacks if v and v.get("_target_") not in _LOOKING_ON}
    return hashlib.sha256(json.dumps(_switched_on(kept), sort_keys=True).encode()).hexdigest()[:12]


def _with_rate(cfg, settings):
    """The network without the learning rate it proposes, and the optimizer with it."""
    network, optimizer = {**settings.get("network", {})}, {**settings.get("optimizer", {})}
    network.pop("learning_rate", None)
    rate = optimizer.get("learning_rate")
    if isinstance(rate, dict) and "initial_learning_rate" in rate:
        value = cfg.optimizer.learning_rate.initial_learning_rate
        optimizer["learning_rate"] = {**rate, "initial_learning_rate": value}
    return network, optimizer


def _switched_on(node):
    if isinstance(node, list):
        return [_switched_on(value) for value in node]
    if not isinstance(node, dict):
        return node
    parts = {key: _switched_on(value) for key, value in node.items()}
    target = node.get("_target_", "dann.")
    if not target.startswith("dann."):
        return {key: v for key, v in parts.items() if v or isinstance(v, bool | int | float)}
    on = _on_by_default(target)
    return {key: value for key, value in parts.items() if value or key in on}


@functools.cache
def _on_by_default(target):
    """The arguments whose defaults are neither null, nor empty, nor false, nor 0."""
    defaults: dict[str, Any] = {}
    for definition, _ in reversed(constructors_of(target)):
        defaults |= defaults_in(definition)
    return {name for name, value in defaults.items() if value}


def digest_of_command(overrides: Sequence[str]) -> str:
    """Returns the digest of the run that `scripts/train.py` would make of these arguments.

    Works only within a script, because it reads the script's `conf/`.
    """
    return settings_digest(compose("train", list(overrides)))


def digest_of_run(directory: str | os.PathLike) -> str | None:
    """Returns the digest of the settings of a finished run; `None` if it is not finished."""
    run = RunDirectory(directory)
    try:
        return settings_digest(OmegaConf.create(run.config())) if run.is_finished() else None
    except FileNotFoundError:
        return None
