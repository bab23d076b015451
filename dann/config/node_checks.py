"""Checks that the nodes of a config can serve their groups, made without importing Keras."""

import difflib
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from omegaconf import MISSING

from dann.checks import check_names
from dann.config.config_error import ConfigError
from dann.config.constructor_checks import arguments_of
from dann.config.target_names import names_of_module, registered_names
from dann.training.run_directory import RunDirectory

_DOMAINS = ("source", "target", "blend")  # of an augmentation


def check_nodes(config: Mapping[str, Any]) -> None:
    """Raises `ConfigError` if a node of a plain, resolved config cannot serve its group.

    It looks for the files and folders that are read, the network of `keras.applications`, the
    teacher of a second stage, diagnostics by name, and a class to build where a group needs one.

    Raises:
        TypeError: If names of diagnostics are no list.
        ValueError: If there is no diagnostic of a name.
    """
    run = (config.get("paths") or {}).get("run_dir")
    for group in ("callbacks", "regularizers"):
        for name, node in (config.get(group) or {}).items():
            if node is not None:
                _check_part(f"{group}.{name}", node, f"a {group[:-1]}")
                _check_folder(f"{group}.{name}.filename", node.get("filename"), run)
                _check_diagnostics(f"{group}.{name}.diagnostics", node)
    _check_augmentation(config.get("augmentation"))
    _check_data(config.get("data"))
    network, method = config.get("network"), config.get("method")
    _check_application(network.get("backbone") if isinstance(network, dict) else None)
    teacher = method.get("teacher") if isinstance(method, dict) else None
    if teacher not in (None, MISSING):
        check_teacher(teacher)


def check_teacher(path: Any) -> pathlib.Path:
    """Returns the `.keras` file of a second stage's teacher.

    Args:
        path: The file, or the directory of a finished run.

    Raises:
        ConfigError: If it is neither.
    """
    file = _expanded(path) if isinstance(path, str) else None
    if file is not None and _holds(file.is_dir):
        file = RunDirectory(file).classifier_file
    if file is None or file.suffix != ".keras" or not _holds(file.is_file):
        raise ConfigError(
            "method.teacher must be the directory of a finished run, or a .keras file. "
            f"Received: {path}"
        )
    return file


def _check_part(key, node, wanted):
    if not (isinstance(node, dict) and "_target_" in node):
        raise ConfigError(f"{key} must name {wanted} as `_target_`. Received: {node!r}")


def _check_folder(key, path, run):
    """Checks the folder of a file that a callback writes, unless a run may make it.

    A callback such as `CSVLogger` makes none.
    """
    folder = pathlib.Path(path).absolute().parent if isinstance(path, str) else None
    if folder is None or (run and folder.is_relative_to(pathlib.Path(run).absolute())):
        return
    if not _holds(folder.is_dir):
        raise ConfigError(f"{key} must be in a folder that exists. Received: {path}")


def _check_diagnostics(key, node):
    names = node.get("diagnostics")
    if node["_target_"] == "dann.diagnostics.Diagnostics" and isinstance(names, str | list):
        check_names(key, names, registered_names("diagnostics", "DIAGNOSTICS"))


def _check_augmentation(node):
    if node is not None and not isinstance(node, dict):
        raise ConfigError(f"augmentation must have layers by domain. Received: {node!r}")
    for domain, layers in (node or {}).items():
        if domain not in _DOMAINS:
            raise ConfigError(
                f"augmentation must have layers under {', '.join(_DOMAINS)}. Received: {domain}"
            )
        for layer in layers if isinstance(layers, list) else [layers]:
            _check_part(f"augmentation.{domain}", layer, "layers")


def _check_data(node):
    """Checks that the files and folders that a reader reads are there, and are paths at all."""
    if not isinstance(node, dict) or "_target_" not in node:
        return
    reader, sources = node["_target_"].rpartition(".")[2], node.get("sources")
    read = arguments_of(node["_target_"]).paths
    given = [(name, path) for name, path in node.items() if name in read or name.endswith("_dir")]
    if isinstance(sources, list) and "source" in read:
        given += [("sources", path) for path in sources]
    for name, path in given:
        if path in (None, "", MISSING):
            continue
        if not isinstance(path, str):
            raise ConfigError(f"data.{name} must be a path; quote numbers. Received: {path!r}")
        if name != "cache_dir" and not _is_there(path, node.get("root")):
            raise ConfigError(f"data.{name} must be a file or folder that exists. Received: {path}")
    if reader == "image_folder":
        _check_domains(node)


def _check_domains(node):
    """Checks the folders of the domains of images that no list names."""
    root, several = node.get("root"), node.get("sources")
    domains = [("source", node.get("source"))] if not several else []
    domains += [("sources", name) for name in (several if isinstance(several, list) else ())]
    domains = [] if node.get("source_list") else domains
    domains += [("target", node.get("target"))] if not node.get("target_list") else []
    for name, domain in domains:
        if not isinstance(domain, str) or domain == MISSING or root in (None, "", MISSING):
            continue
        if not _holds((_expanded(root) / domain).is_dir):
            raise ConfigError(
                f"data.{name} must be a folder below data.root={root}. Received: {domain}"
            )


def _check_application(backbone):
    """Checks the name and the file of weights of a network of `keras.applications`."""
    if not isinstance(backbone, dict):
        return
    if backbone.get("_target_", "").rpartition(".")[2] != "application_backbone":
        return
    known = sorted(
        each for each in names_of_module("keras.applications") or () if each[0].isupper()
    )
    name, weights = backbone.get("name"), backbone.get("weights")
    if known and name not in (None, MISSING) and name not in known:
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5) or known
        raise ConfigError(
            "network.backbone.name must be a network of keras.applications; similar: "
            f"{', '.join(near)}. Received: {name}"
        )
    if weights not in (None, MISSING, "imagenet") and not _is_there(str(weights), None):
        raise ConfigError(
            "network.backbone.weights must be 'imagenet', null or an existing file of weights. "
            f"Received: {weights}"
        )


def _is_there(path, root):
    """Whether a path exists, here or below a root."""
    places = [_expanded(path), *([_expanded(root) / path] if isinstance(root, str) else [])]
    return any(_holds(place.exists) for place in places)


def _expanded(path):
    """The path with `~` replaced; as it is where that is nobody's home."""
    try:
        return pathlib.Path(path).expanduser()
    except RuntimeError:
        return pathlib.Path(path)


def _holds(test: Callable[[], bool]) -> bool:
    """Whether a test of a path holds; not for a name that is too long."""
    try:
        return test()
    except OSError:
        return False
