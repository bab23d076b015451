"""Builds the objects of a training from its composed config. Nothing else calls what it names.

Whatever a config names is called, so a `_target_` must be on a list: public classes of this package
and of Keras, and the functions that make networks or read data.
"""

import dataclasses
import functools
import importlib
import inspect
import pathlib
from collections.abc import Collection, Iterator
from typing import Any, TypeVar

import hydra
import keras
from omegaconf import DictConfig, OmegaConf

from dann import networks
from dann.adaptation import METHODS, Invariant
from dann.checks import check_integer, did_you_mean, has_tensorflow
from dann.data import READERS, DomainPair, join_sources
from dann.optimizers import FlipRatio, PerVariable, faster_heads
from dann.training import RunDirectory
from dann.training.run_directory import load_model

T = TypeVar("T")
_MODULES = (
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
_LEFT_OUT = {
    "FlaxLayer",
    "JaxLayer",
    "Lambda",
    "LambdaCallback",
    "RemoteMonitor",
    "TFSMLayer",
    "TorchModuleWrapper",
}
# What `data` may name.
READER_NAMES = frozenset(f"dann.data.{reader.__name__}" for reader in READERS)


class ConfigError(ValueError):
    """A config is wrong; the message says in one line what and where."""


@functools.cache
def target_names() -> frozenset[str]:
    """Returns what all other groups of a config may name."""
    found = {
        f"dann.networks.{name}" for name, _ in inspect.getmembers(networks, inspect.isfunction)
    }
    found |= {"dann.diagnostics.Diagnostics", "dann.training.EpochTable", "keras.Sequential"}
    for name in _MODULES:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", dir(module))
        classes = {one for one in public if inspect.isclass(getattr(module, one))}
        found |= {f"{name}.{one}" for one in classes - _LEFT_OUT}
    return frozenset(found)


def instantiate(node: Any, names: Collection[str] | None = None) -> Any:
    """Builds the object that a config node describes, as `hydra.utils.instantiate` does.

    Containers become plain `dict` and `list`, because Keras saves what it is given.

    Args:
        node: A node of a config, or a plain container.
        names: What it may name as `_target_`. Defaults to `None`: `target_names()`.

    Raises:
        ConfigError: If it names anything else.
        hydra.errors.InstantiationException: If a target raises an error.
    """
    check_targets(node, names)
    # A reader takes texts, such as a column named "no".
    for key, value in iterate_entries([as_container(node)]) if names is None else ():
        if str(value).lower() in ("yes", "no", "on", "off"):
            told = f"{key.rpartition('.')[2]}={value}"
            raise ConfigError(f"Write true or false. Received: {told}")
    return hydra.utils.instantiate(node, _convert_="all")


def check_targets(node: Any, names: Collection[str] | None = None) -> None:
    """Raises `ConfigError` if a node names, at any depth, what `instantiate` must not call."""
    names = target_names() if names is None else names
    for key, value in iterate_entries([as_container(node)]):
        if isinstance(value, str) and "${" in value:
            raise ConfigError(f"Hydra would resolve this text a second time. Received: {value}")
        if key.endswith("._target_") and value not in names:
            raise ConfigError(
                "`_target_` must be a public class of dann or keras, or a function of dann.data or "
                f"dann.networks.{did_you_mean(str(value), names)} Received: {value}"
            )


def iterate_entries(node: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the dotted key and the value of all that a plain container holds, at any depth."""
    for key, value in enumerate(node) if isinstance(node, list) else node.items():
        yield f"{above}{key}", value
        if isinstance(value, dict | list):
            yield from iterate_entries(value, f"{above}{key}.")


def as_container(node: Any) -> Any:
    """Returns a node of a config as plain containers, its references resolved."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def build_domains(cfg: DictConfig) -> DomainPair:
    """Loads the domains of `cfg.data` and applies `cfg.balanced` and `cfg.target_labelled`.

    With `data.sources` it loads each source with the target and joins the pairs; with `data.path`
    one labelled table.

    Raises:
        ConfigError: If `data` names anything but a reader.
    """
    node = as_container(cfg.data)
    sources, path = node.pop("sources", None), node.pop("path", None)
    if path is not None:
        node |= {"source": path, "target": None}

    def load(**source):
        return _built("data", {**node, **source}, DomainPair, READER_NAMES)

    domains = join_sources([load(source=name) for name in sources]) if sources else load()
    if cfg.target_labelled:
        domains = domains.with_target_labelled(cfg.target_labelled, cfg.seed)
    if domains.balanced == cfg.balanced:
        return domains
    return dataclasses.replace(domains, balanced=cfg.balanced)


def build_model(cfg: DictConfig, method: Any, domains: DomainPair) -> Any:
    """Builds the network of `cfg` and the method around it.

    Args:
        cfg: The composed config.
        method: Node of the method.
        domains: The data, whose nuisances `method=invariant` hides.

    Returns:
        The model. The method receives the parts of the network that its constructor accepts, and
        calls the domain head with the number of its inputs. A method with a `teacher` starts from
        the weights of that model.
    """
    # Entries without a target are values that the parts and the optimizer refer to.
    network = {
        name: _built(f"network.{name}", part, functools.partial)
        for name, part in cfg.network.items()
        if OmegaConf.is_dict(part)
    }
    if network["backbone"].keywords.get("input_range") == "auto":
        pixels = (0, 255) if len(domains.input_shape) == 3 else None
        network["backbone"] = functools.partial(network["backbone"], input_range=pixels)
    backbone = network["backbone"](input_shape=domains.input_shape)
    features, num_classes = backbone.output_shape[-1], domains.num_classes
    # The baseline beside the method takes no regularizers.
    regularizers = instantiate(cfg.regularizers) if method == cfg.method else {}
    node = dict(as_container(method))
    teacher = node.pop("teacher", None)
    build = _built("method", node, functools.partial)
    if build.func not in (*METHODS.values(), Invariant):
        raise ConfigError(f"method must name a method as `_target_`. Received: {build.func}")
    kinds = domains.nuisances.kinds if domains.nuisances else None
    if (build.func is Invariant) != (kinds is not None):
        raise ConfigError(
            "method=invariant and data.nuisances=[...] go together. Received: "
            f"{build.func.__name__} and {list(kinds) if kinds else 'no nuisances'}"
        )
    parts = {
        "label_head": network["label_head"](features, num_classes),
        "regularizers": list(regularizers.values()),
        "augmentation": instantiate(cfg.augmentation),
    }
    if "domain_head" in build.func.arguments:
        parts["domain_head"] = network["domain_head"]
    if "num_sources" in build.func.arguments:
        parts["num_sources"] = domains.num_sources
    if kinds is not None:
        parts["nuisances"] = kinds
    model = build(backbone, **parts)
    return model if teacher is None else _start_from_teacher(model, pathlib.Path(teacher))


def count_steps(cfg: DictConfig, domains: DomainPair) -> None:
    """Sets `cfg.trainer.steps` and `steps_per_epoch` if `cfg.trainer.epochs` is given.

    An epoch is one pass over the source, in whole batches. Schedules that refer to `trainer.steps`
    follow.

    Raises:
        ValueError: If there is no step, or no epoch.
    """
    given = "steps" if cfg.trainer.epochs is None else "epochs"
    check_integer(f"trainer.{given}", cfg.trainer[given], low=1)
    if cfg.trainer.epochs is not None:
        cfg.trainer.steps_per_epoch = max(1, len(domains.source_train[1]) // cfg.trainer.batch_size)
        cfg.trainer.steps = cfg.trainer.epochs * cfg.trainer.steps_per_epoch


def step_intervals(cfg: DictConfig) -> list[int]:
    """Returns after how many steps callbacks of `cfg` ask to act."""
    nodes = filter(OmegaConf.is_dict, cfg.callbacks.values())
    keys = "every_n_steps", "save_freq", "update_freq"
    asked = [node.get(key) for node in nodes for key in keys]
    asked = [1 if steps == "batch" else steps for steps in asked]  # as in TensorBoard's update_freq
    return [steps for steps in asked if isinstance(steps, int) and steps > 0]


def build_callbacks(cfg: DictConfig, model: Any) -> list[keras.callbacks.Callback]:
    """Builds the callbacks of `cfg` that are not null, and checks that they fit the model."""
    callbacks = [
        _built(f"callbacks.{name}", node, keras.callbacks.Callback)
        for name, node in cfg.callbacks.items()
        if node is not None
    ]
    if not has_tensorflow():
        found = [one for one in callbacks if not isinstance(one, keras.callbacks.TensorBoard)]
        if len(found) < len(callbacks):
            print("TensorBoard's events are not written, because they need TensorFlow")
        callbacks = found
    for callback in callbacks:
        if isinstance(callback, FlipRatio):
            callback.check(model)
    return callbacks


def build_optimizer(cfg: DictConfig, model: Any) -> keras.optimizers.Optimizer:
    """Builds the optimizer of `cfg`, with `network.head_rate` times its rate for the heads."""
    optimizer = _built("optimizer", cfg.optimizer, keras.optimizers.Optimizer)
    if isinstance(optimizer, PerVariable):
        optimizer.build(model.trainable_variables)  # rules that do not fit raise their error now
    head_rate = cfg.network.get("head_rate", 1.0)
    return optimizer if head_rate == 1 else faster_heads(model, optimizer, head_rate)


def _built(key: str, node: Any, kind: type[T], *names: Any) -> T:
    """Builds what a node describes, and checks that it is what its place in the config needs."""
    plain = as_container(node)
    built = instantiate(OmegaConf.create({key: plain}), *names)[key]
    if not isinstance(built, kind):
        raise ConfigError(f"{key} must name a {kind.__name__} as `_target_`. Received: {plain}")
    return built


def _start_from_teacher(model: Any, path: pathlib.Path) -> Any:
    """Loads the weights of a run's classifier, or of a `.keras` file, into a second stage."""
    path = path.expanduser()
    if path.suffix != ".keras":
        path = RunDirectory(path).classifier_file
    return model.start_from(load_model(path, compile=False))
