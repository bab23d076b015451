"""Builds the objects of a training run from its composed config.

Configs can be untrusted, and Hydra calls any `_target_`. Therefore only targets on an allow-list
are instantiated: public classes of this package and of Keras, and the functions that build networks
or read data. Only this module instantiates parts of a config.
"""

import dataclasses
import functools
import importlib
import inspect
import pathlib
from collections.abc import Collection
from typing import Any, TypeVar

import hydra
import keras
from omegaconf import DictConfig, OmegaConf

from dann import networks
from dann.adaptation import Invariant
from dann.adaptation.adversarial_model import METHODS
from dann.checks import did_you_mean, has_tensorflow, print_warning
from dann.config.data_paths import resolve_paths
from dann.config.errors import ConfigError, iterate_entries
from dann.data import DomainPair, join_sources
from dann.data.pair import BATCH_SIZE
from dann.data.standardizer import Standardizer
from dann.networks.heads import scale_outputs
from dann.optimizers import FlipRatio, PerVariable, faster_heads
from dann.training.file_readers import load_model
from dann.training.run_directory import RunDirectory

T = TypeVar("T")
_PACKAGES = (
    "dann",
    "dann.gradients.estimators",
    "dann.layers",
    "dann.optimizers",
    "dann.schedules",
    "keras.callbacks",
    "keras.constraints",
    "keras.initializers",
    "keras.layers",
    "keras.losses",
    "keras.optimizers",
    "keras.optimizers.schedules",
    "keras.regularizers",
)
# Classes that run code or a saved graph, call a function, or send logs to a server.
_UNSAFE = {
    "FlaxLayer",
    "JaxLayer",
    "Lambda",
    "LambdaCallback",
    "RemoteMonitor",
    "TFSMLayer",
    "TorchModuleWrapper",
}
# Functions that `data._target_` of a config may name.
READER_NAMES = {
    "dann.data.csv_table",
    "dann.data.digits_to_photos",
    "dann.data.emoji",
    "dann.data.image_folder",
    "dann.data.npz",
    "dann.data.sentiment",
    "dann.data.smartwatch_activities",
    "dann.data.tfds_pair",
}


@functools.cache
def get_target_names() -> frozenset[str]:
    """Returns the names that a `_target_` may have outside of `data`."""
    names = {
        f"dann.networks.{name}" for name, _ in inspect.getmembers(networks, inspect.isfunction)
    }
    names |= {"dann.diagnostics.Diagnostics", "dann.training.EpochTable", "keras.Sequential"}
    for package in _PACKAGES:
        classes = inspect.getmembers(importlib.import_module(package), inspect.isclass)
        names |= {f"{package}.{name}" for name, _ in classes if name not in _UNSAFE}
    return frozenset(names)


def instantiate(node: Any, names: Collection[str] | None = None) -> Any:
    """Builds the object that a config node describes, as `hydra.utils.instantiate` does.

    Containers become plain `dict` and `list`, because Keras saves arguments in configs of models.

    Args:
        node: A node of a config, or a plain container.
        names: Names that a `_target_` may have. Defaults to `None`: `get_target_names()`.

    Raises:
        ConfigError: If a `_target_` is not on the allow-list.
        hydra.errors.InstantiationException: If a target raises an error.
    """
    check_targets(node, names)
    if names is None:  # a reader takes any text, such as a column named "no"
        for key, value in iterate_entries([as_container(node)]):
            if str(value).lower() in ("yes", "no", "on", "off"):
                argument = f"{key.rpartition('.')[2]}={value}"
                raise ConfigError(f"Write true or false. Received: {argument}")
    return hydra.utils.instantiate(node, _convert_="all")


def check_targets(node: Any, names: Collection[str] | None = None) -> None:
    """Checks every `_target_` of a config node, at any depth.

    Args:
        node: A node of a config, or a plain container.
        names: Names that a `_target_` may have. Defaults to `None`: `get_target_names()`.

    Raises:
        ConfigError: If a `_target_` is not on the allow-list, or a text contains `${`.
    """
    names = get_target_names() if names is None else names
    for key, value in iterate_entries([as_container(node)]):
        if isinstance(value, str) and "${" in value:
            raise ConfigError(
                "Expected text without `${`, because Hydra would interpolate it again. "
                f"Received: {value}"
            )
        if key.endswith("._target_") and value not in names:
            raise ConfigError(
                "`_target_` must be a public class of dann or keras, or a function of dann.data or "
                f"dann.networks.{did_you_mean(str(value), names)} Received: {value}"
            )


def as_container(node: Any) -> Any:
    """Converts a node of a config to plain containers with resolved references."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def build_domains(
    cfg: DictConfig, standardizer: Standardizer | None = None, is_trained: bool = False
) -> DomainPair:
    """Loads the domains of `cfg.data`, and applies `cfg.balanced` and `cfg.target_labeled`.

    With `data.sources`, loads each source with the target and joins the pairs. With `data.path`,
    loads one labeled table. With `data.standardize`, standardizes the inputs.

    Args:
        cfg: The composed config.
        standardizer: The standardizer of an earlier run. Defaults to `None`: a new standardizer,
            fitted to the training data.
        is_trained: Whether a run has trained on these data and printed warnings about the columns,
            which are then not repeated. Defaults to `False`.

    Raises:
        ConfigError: If `data` names anything but a reader.
    """
    node = resolve_paths(as_container(cfg.data), cfg.paths.work_dir)
    sources, path = node.pop("sources", None), node.pop("path", None)
    standardize = node.pop("standardize", None)
    if path is not None:
        node |= {"source": path, "target": None}
    if is_trained and node["_target_"] == "dann.data.csv_table":
        node["verbose"] = False

    def load(**source):
        return _build_part("data", {**node, **source}, DomainPair, READER_NAMES)

    domains = join_sources([load(source=name) for name in sources]) if sources else load()
    if standardize is not None:
        if standardizer is None:
            domains = domains.standardize(standardize)
        else:
            domains = domains.apply_standardizer(standardizer)
    if cfg.target_labeled:
        domains = domains.with_target_labeled(cfg.target_labeled, cfg.seed)
    if domains.balanced == cfg.balanced:
        return domains
    return dataclasses.replace(domains, balanced=cfg.balanced)


def build_model(
    cfg: DictConfig, method: Any, domains: DomainPair, is_baseline: bool = False
) -> Any:
    """Builds the network of `cfg` and the method around it.

    Args:
        cfg: The composed config.
        method: Node of the method.
        domains: The data, whose nuisances `method=invariant` hides.
        is_baseline: Whether the model is the baseline of a run, which has no regularizers. Defaults
            to `False`.

    Returns:
        The model. The method receives the parts of the network that its constructor accepts; the
        domain head is a function of the number of its inputs. A method with a `teacher` starts from
        the weights of the teacher.
    """
    # Entries such as `learning_rate` are numbers to which other parts of the config refer.
    network = {
        name: _build_part(f"network.{name}", part, functools.partial)
        for name, part in cfg.network.items()
        if OmegaConf.is_dict(part)
    }
    is_standardized = domains.standardizer is not None
    input_range = network["backbone"].keywords.get("input_range")
    if input_range == "auto" or (input_range is None and domains.has_images and is_standardized):
        # The network maps this range to [-1, 1], so it does not rescale standardized images again.
        image_range = (-1, 1) if is_standardized else (0, 255)
        input_range = image_range if domains.has_images else None
        network["backbone"] = functools.partial(network["backbone"], input_range=input_range)
    backbone = network["backbone"](input_shape=domains.input_shape)
    features, num_classes = backbone.output_shape[-1], domains.num_classes
    regularizers = {} if is_baseline else instantiate(cfg.regularizers)
    node = dict(as_container(method))
    teacher = node.pop("teacher", None)
    build = _build_part("method", node, functools.partial)
    if build.func not in (*METHODS.values(), Invariant):
        raise ConfigError(f"method must name a method as `_target_`. Received: {build.func}")
    kinds = domains.nuisances.kinds if domains.nuisances else None
    if (build.func is Invariant) != (kinds is not None):
        raise ConfigError(
            "method=invariant and data.nuisances=[...] go together. Received: "
            f"{build.func.__name__} and {list(kinds) if kinds else 'no nuisances'}"
        )
    head = network["label_head"](features, num_classes)
    if num_classes == 1:  # regression
        head = scale_outputs(head, domains.source_train[1])
    parts = {
        "label_head": head,
        "regularizers": list(regularizers.values()),
        "augmentation": instantiate(cfg.augmentation),
    }
    if "domain_head" in build.func.arguments:
        parts["domain_head"] = network["domain_head"]
    if "num_sources" in build.func.arguments:
        parts["num_sources"] = domains.num_sources
        if domains.num_sources == 1:
            print_warning(
                "method=mdan with a single source trains like method=dann. List several sources "
                "in data.sources=[...]"
            )
    if kinds is not None:
        parts["nuisances"] = kinds
    model = build(backbone, **parts)
    return model if teacher is None else _start_from_teacher(model, pathlib.Path(teacher))


def count_steps(cfg: DictConfig, domains: DomainPair) -> None:
    """Sets `cfg.trainer.steps` and `steps_per_epoch` if `cfg.trainer.epochs` is set.

    An epoch is one pass over the source, in full batches. Schedules that refer to `trainer.steps`
    change with it.
    """
    if cfg.trainer.epochs is not None:
        batch_size = cfg.trainer.batch_size or BATCH_SIZE
        cfg.trainer.steps_per_epoch = max(1, len(domains.source_train[1]) // batch_size)
        cfg.trainer.steps = cfg.trainer.epochs * cfg.trainer.steps_per_epoch


def build_callbacks(cfg: DictConfig, model: Any) -> list[keras.callbacks.Callback]:
    """Builds the callbacks of `cfg` that are not null, and checks them against the model."""
    callbacks = [
        _build_part(f"callbacks.{name}", node, keras.callbacks.Callback)
        for name, node in cfg.callbacks.items()
        if node is not None
    ]
    if not has_tensorflow():
        tensorboard = keras.callbacks.TensorBoard
        if any(isinstance(callback, tensorboard) for callback in callbacks):
            print("TensorBoard events are not written, because they require TensorFlow")
        callbacks = [callback for callback in callbacks if not isinstance(callback, tensorboard)]
    for callback in callbacks:
        if isinstance(callback, FlipRatio):
            callback.check(model)
    return callbacks


def build_optimizer(cfg: DictConfig, model: Any) -> keras.optimizers.Optimizer:
    """Builds the optimizer of `cfg`; heads learn at `network.head_rate` times its rate."""
    optimizer = _build_part("optimizer", cfg.optimizer, keras.optimizers.Optimizer)
    if isinstance(optimizer, PerVariable):
        optimizer.build(model.trainable_variables)  # raises now if a rule matches no variable
    head_rate = cfg.network.get("head_rate", 1.0)
    return optimizer if head_rate == 1 else faster_heads(model, optimizer, head_rate)


def _build_part(
    key: str, node: Any, expected_type: type[T], names: Collection[str] | None = None
) -> T:
    """Instantiates the node of a key, and checks that the result is of the expected type."""
    plain = as_container(node)
    part = instantiate(OmegaConf.create({key: plain}), names)[key]
    if not isinstance(part, expected_type):
        name = expected_type.__name__
        raise ConfigError(f"{key} must name a {name} as `_target_`. Received: {plain}")
    return part


def _start_from_teacher(model: Any, path: pathlib.Path) -> Any:
    """Copies the weights of a classifier to a model; `path` is a run or a `.keras` file."""
    path = path.expanduser()
    if path.suffix != ".keras":
        path = RunDirectory(path).classifier_file
    return model.load_first_stage(load_model(path, compile=False))
