"""Error for invalid configs, and one-line explanations of Hydra's errors."""

import difflib
import errno
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

from hydra import errors
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from dann.checks import did_you_mean
from dann.config.schema import CONF
from dann.training.overrides import format_argument

_LAUNCHER_ADVICE = " For joblib, ray or submitit: `pip install hydra-<name>-launcher`."
# Advice, and the networks of `keras.applications`, whose names are no choices of `network`.
_APPLICATION_ADVICE = " For `keras.applications`: network=keras_application network.name=ResNet50."
_FAMILIES = "convnext|densenet|efficientnet|inception|mobilenet|nasnet|resnet|vgg|xception"


class ConfigError(ValueError):
    """Raised for an invalid config. The message names the key and what to change, on one line."""


def explain_error(error: Exception) -> str:
    """Returns the message of an error; adds similar keys or choices that Hydra does not list.

    Args:
        error: An error of Hydra or OmegaConf, of which the first line is used, or any other error.
    """
    first = re.sub(r"^In '[^']*': ", "", str(error).partition("\n")[0])
    cause: Any = error.__cause__
    if isinstance(error, errors.OverrideParseException):
        key, equals, value = str(error.override).partition("=")
        if not equals:
            is_run = "/" in key or (key and pathlib.Path(key).is_dir())
            is_run = is_run and pathlib.Path(sys.argv[0]).stem != "train"
            example = f"run={key}" if is_run else f"{key}=value"
            return f"Expected an argument key=value, such as {example}. Received: {key}"
        is_text = not re.search(r"^[\[({'\"]|,$", value)  # rather than a part of a list
        example = format_argument(key, value) if is_text else "'key=\"a, (b)\"'"
        return (
            "Expected arguments key=value, without spaces after commas, and quotes around text "
            f"with special characters: {example}. Received: {error.override}"
        )
    if isinstance(error, errors.MissingConfigException):
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        options = error.options or [path.stem for path in (CONF / group).glob("*.yaml")]
        hint = did_you_mean(name.lower(), options) or f" Choose from {', '.join(sorted(options))}."
        paths = sorted(path for path in CONF.glob("*/*.yaml") if path.stem == name.lower())
        if len(paths) in (1, 2):  # many groups have a choice such as `none`
            hint = f" Did you mean {' or '.join(f'{p.parent.name}={p.stem}' for p in paths)}?"
        if group == "network" and re.match(_FAMILIES, name.lower()):
            hint = _APPLICATION_ADVICE
        if group == "hydra/launcher":
            hint += _LAUNCHER_ADVICE
        return f"{first.rstrip('.')}.{hint}"
    if isinstance(error, ModuleNotFoundError) and error.name in ("jax", "torch"):
        return f"KERAS_BACKEND={error.name} needs `pip install {error.name}`"
    if isinstance(error, errors.InstantiationException) and cause is not None:
        _, has_key, full_key = str(error).partition("full_key: ")
        if isinstance(cause, FileNotFoundError) and cause.filename:
            cause = f"no such file or folder: {pathlib.Path(cause.filename).absolute()}"
        advice = _explain_permission(cause, "store prepared data in another paths.cache_dir=")
        return f"{full_key if has_key else first.rstrip(':')}: {cause}{advice}"
    for key_error in (error, cause):
        if isinstance(key_error, ConfigKeyError | ConfigAttributeError):
            key, full_key = str(key_error.key), str(key_error.full_key)
            parent: Any = key_error.parent_node
            near = find_similar_keys(key, parent)
            group = full_key.removesuffix(key)
            names = ", ".join(group + name for name in near)
            hint = f"Did you mean {names}?" if near else "See --help."
            if not near and group:
                names = ", ".join(str(name) for name in parent if name != "_target_")
                hint = f"Keys of {group[:-1]}: {names}."
            if "_target_" in parent:  # it may have arguments that the config does not list
                hint += f" A new key needs +{full_key}=..."
            return f"{first.rstrip('.')}. {hint}"
    if first.startswith("Config group override"):
        return f"{first}. Choose by name (schedule=ganin); set numbers by key (schedule.high=0.1)"
    if first.startswith("Ambiguous value"):
        argument = first.partition("'")[2].rstrip("'")
        key, _, values = argument.partition("=")
        hint = f"For a list write {key}=[{values}], for text '{key}=\"{values}\"'"
        return f"To sweep over values, add -m: -m {argument}. {hint}"
    if isinstance(error, errors.ConfigCompositionException) and cause is not None:
        pattern = r"Value (.*) of type .* could not be converted to Integer"
        reason = re.sub(pattern, r"Expected an integer. Received: \1", str(cause).splitlines()[0])
        return f"{first.removeprefix('Error merging override ')}: {reason}"
    if isinstance(error, OmegaConfBaseException) and error.full_key:
        return f"{error.full_key}: {first}"
    advice = _explain_permission(error, "write to another hydra.run.dir=")
    return (str(error) or type(error).__name__) + advice


def _explain_permission(error: Any, setting: str) -> str:
    """Returns advice if a file or folder may not be read or written, otherwise an empty string."""
    is_denied = getattr(error, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS)
    return f". Change the permissions, or {setting}" if is_denied else ""


def find_similar_keys(key: str, cfg: Any) -> list[str]:
    """Returns at most three dotted keys of a config that are similar to `key`.

    A key matches if its last part, or the initials of its last part (`lr` for `learning_rate`),
    equals `key`. If no key matches, the function returns similar spellings.
    """
    group: Any = OmegaConf.to_container(cfg)
    group.pop("hydra", None)
    names = [name for name, _ in iterate_entries(group) if "._" not in f".{name}"]
    last_parts = {name: name.rpartition(".")[2] for name in names}
    initials = {name: "".join(w[:1] for w in last_parts[name].split("_")) for name in names}
    near = [name for name in names if key in (last_parts[name], initials[name])]
    if not near:
        words = difflib.get_close_matches(key, {*names, *last_parts.values()}, n=3, cutoff=0.7)
        near = [name for word in words for name in names if word in (name, last_parts[name])]
    return list(dict.fromkeys(near))[:3]


def iterate_entries(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the dotted key and the value of every entry of a plain container, at any depth."""
    for key, value in enumerate(node) if isinstance(node, list) else node.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict | list):
            yield from iterate_entries(value, f"{prefix}{key}.")
