"""The part of a finished run's config that its data are built from."""

import os
import re
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dann.config.config_error import ConfigError
from dann.config.schema import TrainConfig
from dann.training import RunDirectory

_KEYS = ("seed", "balanced", "target_labelled", "data")
_MOST_LEVELS = 20  # OmegaConf recurses several calls a level
_MOST_REFERENCES = 16  # three in each of a chain of keys, so that text grows 400 times at most
_LONGEST_PATH = 4096
_REFERENCE = re.compile(r"\$\{\.*[A-Za-z_][\w.]*\}")


def config_of_run(directory: str | os.PathLike, paths: Any = None) -> Any:
    """Returns the part of a run's config that describes its data, with the command's paths.

    The run may come from somebody else, so it is not trusted. Other parts of its config are not
    read. References to these keys and to `paths` are resolved, but no resolver such as `oc.env` is
    called. Data are prepared only in the command's `cache_dir`. TFDS's own data sets, some of which
    unpickle raw files, do not read from the run's `data_dir`.

    Args:
        directory: A run directory of `scripts/train.py`.
        paths: `data_dir` and `cache_dir` of the command. If one is null, the run's is used.
            Defaults to `None`: both are the run's.

    Raises:
        ConfigError: If the config cannot be read, or refers to something else.
        FileNotFoundError: If the config is not there.
    """
    run = RunDirectory(directory)
    text = run.config()
    try:
        _check_form(text)
        config = OmegaConf.to_container(OmegaConf.create(text))
    except (OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"Cannot read {run.config_file}: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("data"), dict):
        raise ConfigError(
            f"{run.config_file} must be a config of scripts/train.py. Received: no `data`"
        )
    given = paths or {}
    theirs = config.get("paths") or {}
    if not isinstance(theirs, dict):
        raise ConfigError(f"paths of {run.config_file} must be values by name. Received: {theirs}")
    used = {key: config[key] for key in _KEYS if key in config}
    used["paths"] = {
        key: theirs.get(key) if given.get(key) is None else given[key]
        for key in ("data_dir", "cache_dir")
    }
    references = _check_references(used, run.config_file)
    plain = not _check_references(used["paths"], run.config_file)
    if plain and all(len(str(path)) <= _LONGEST_PATH for path in used["paths"].values()):
        references = [one for one in references if not one.startswith("${paths.")]
    if len(references) > _MOST_REFERENCES:
        raise ConfigError(
            f"{run.config_file} may hold {_MOST_REFERENCES} references besides those to `paths`. "
            f"Received: {len(references)}"
        )
    used["paths"]["run_dir"] = str(directory)
    cfg: Any = OmegaConf.merge(OmegaConf.structured(TrainConfig), used)
    data: Any = OmegaConf.to_container(cfg.data, resolve=True)
    cfg.data = _confined(data, cfg.paths, given)
    return cfg


def _check_form(text: str) -> None:
    """Raises `ValueError` for YAML that can stand for far more than it holds, or nests too deep."""
    depth = 0
    for event in yaml.parse(text):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("expected no aliases, which Hydra never writes. Received: one")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_LEVELS:
            raise ValueError(f"expected at most {_MOST_LEVELS} levels. Received: more")


def _check_references(node: Any, path: Any) -> list[str]:
    """Returns the references below a node; raises `ConfigError` for one to a resolver."""
    if isinstance(node, str) and "${" in _REFERENCE.sub("", node):
        raise ConfigError(
            f"{path} may refer to its own keys, but not be resolved further; for a path, give "
            f"paths.data_dir=... Received: {node}"
        )
    if isinstance(node, str):
        return _REFERENCE.findall(node)
    node = list(node.values()) if isinstance(node, dict) else node
    values = node if isinstance(node, list) else ()
    return [one for value in values for one in _check_references(value, path)]


def _confined(data: dict[str, Any], paths: Any, given: Any) -> dict[str, Any]:
    """The `data` of a run that writes to the command's cache and reads no raw files for TFDS."""
    if "cache_dir" in data:
        data["cache_dir"] = paths.cache_dir
    if str(data.get("_target_")).endswith("tfds_pair") and "data_dir" in data:
        names = [data.get("source"), data.get("target"), *(data.get("sources") or ())]
        if not all(_reads_files_itself(name) for name in names if name is not None):
            data["data_dir"] = given.get("data_dir")
    return data


def _reads_files_itself(name: Any) -> bool:
    """Whether a TFDS data set is read by this package; MNIST is, where its files are there."""
    import tensorflow_datasets as tfds

    import dann.data  # noqa: F401  registers its builders

    stem = str(name).partition("/")[0]
    known = stem in tfds.list_builders(with_community_datasets=False)
    return stem == "mnist" or (known and tfds.builder_cls(stem).__module__.startswith("dann."))
