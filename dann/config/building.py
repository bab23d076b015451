"""The objects of a training run, and its distribution, from its composed config."""

import dataclasses
import functools
import inspect
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dann.checks import is_integer
from dann.config.config_error import ConfigError
from dann.config.instantiation import call, instantiate
from dann.config.node_checks import check_teacher
from dann.installed import has_tensorflow
from dann.training.distribution import Distribution
from dann.training.run_directory import load_model


def build_domains(cfg: DictConfig) -> Any:
    """Loads the domains of `cfg.data` and applies `cfg.balanced` and `cfg.target_labelled`.

    With `data.sources` it loads each source with the target and joins the pairs.

    Raises:
        ConfigError: If `data.source` or `data.target` is null, or the data cannot be loaded.
    """
    from dann.data import DomainPair, several_sources

    node: Any = OmegaConf.to_container(cfg.data, resolve=True)
    sources = node.pop("sources", None)
    if sources is not None and not isinstance(sources, list):
        raise ConfigError(f"data.sources must be a list, or null. Received: {sources!r}")
    required = {"target"} if sources else {"source", "target"}
    for key in sorted(required & node.keys()):
        if node[key] is None:
            raise ConfigError(f"data.{key} must be given. Received: null")

    def load(**changes):
        built = instantiate({**node, **changes}, "data")
        return _check_built("data", built, DomainPair, "a reader")

    domains = several_sources([load(source=name) for name in sources]) if sources else load()
    if cfg.target_labelled:
        domains = domains.with_target_labelled(cfg.target_labelled, cfg.seed)
    return dataclasses.replace(domains, balanced=cfg.balanced)


def build_model(
    cfg: DictConfig, method: Any, input_shape: tuple, num_classes: int, num_sources: int = 1
) -> Any:
    """Builds the network of `cfg` and the method around it.

    Args:
        cfg: The composed config.
        method: Node of the method.
        input_shape: Shape of one input.
        num_classes: Number of classes.
        num_sources: Number of source domains.

    Returns:
        The model. The method gets those parts of the network that its constructor takes. The input
        length of a domain head comes from `adversary_inputs` of the method. A method with a
        `teacher` starts from that model's weights.
    """
    from dann.adaptation import METHODS

    # Entries without a target are values that the parts and the optimizer refer to.
    nodes = {name: node for name, node in cfg.network.items() if isinstance(node, DictConfig)}
    nodes = {name: part for name, part in nodes.items() if "_target_" in part}
    network = {
        name: instantiate(part, "network", f"network.{name}") for name, part in nodes.items()
    }
    for name in ("backbone", "label_head", "domain_head"):
        part = network.get(name, cfg.network.get(name))
        if part is not None or name != "domain_head":
            _check_built(f"network.{name}", part, functools.partial, "a partial function")
    backbone = call("network.backbone", network.pop("backbone"), input_shape=input_shape)
    features = backbone.output_shape[-1]
    # The baseline beside the method takes no regularizers.
    chosen = cfg.regularizers if method == cfg.method else {}
    regularizers = instantiate(chosen, "regularizers").values()
    plain: Any = (
        OmegaConf.to_container(method, resolve=True) if OmegaConf.is_config(method) else method
    )
    teacher = plain.get("teacher")
    method = instantiate({key: value for key, value in plain.items() if key != "teacher"}, "method")
    if not isinstance(method, functools.partial) or method.func not in METHODS.values():
        raise ConfigError(f"method must name a method as `_target_`. Received: {method!r}")
    if "strength" in method.keywords and method.keywords["strength"] is None:
        raise ConfigError("method.strength must be a number or a schedule. Received: null")
    told = features, num_classes
    length = call("method", method.func.adversary_inputs, *told, **method.keywords)
    parts = {
        "label_head": call("network.label_head", network.pop("label_head"), features, num_classes),
        **{name: call(f"network.{name}", head, length) for name, head in network.items()},
        "num_sources": num_sources,
    }
    named = inspect.signature(method.func).parameters
    parts = {name: part for name, part in parts.items() if name in named}
    parts["regularizers"] = list(regularizers)
    parts["augmentation"] = instantiate(cfg.augmentation, "augmentation")
    model = call("method", method, backbone, **parts)
    return model if teacher is None else _start_from_teacher(model, teacher)


def _start_from_teacher(model: Any, path: str) -> Any:
    """Loads the weights of a run's classifier, or of a `.keras` file, into a second stage."""
    if not hasattr(model, "start_from"):
        raise ConfigError(
            f"Only a second stage has a teacher. Received: method.teacher={path} for a "
            f"`{type(model).__name__}`"
        )
    return model.start_from(load_model(check_teacher(path), compile=False))


def distribution_of(cfg: Any) -> Distribution:
    """Returns the distribution that a config asks for; by default everything is on one device.

    Raises:
        ValueError: If a key of it is unknown or a value wrong.
    """
    given: Any = OmegaConf.to_container(cfg.get("distribution", OmegaConf.create()))
    known = list(inspect.signature(Distribution).parameters)
    if not given.keys() <= set(known):
        raise ValueError(
            f"distribution has {', '.join(known)}. Received: {', '.join(given.keys() - set(known))}"
        )
    return Distribution(**given)


def count_steps(cfg: DictConfig, domains: Any) -> None:
    """Sets `cfg.trainer.steps` and `steps_per_epoch` if `cfg.trainer.epochs` is given.

    An epoch is one pass over the source, in whole batches. Schedules that refer to `trainer.steps`
    follow.
    """
    if cfg.trainer.epochs is not None:
        cfg.trainer.steps_per_epoch = max(1, len(domains.source_train[1]) // cfg.trainer.batch_size)
        cfg.trainer.steps = cfg.trainer.epochs * cfg.trainer.steps_per_epoch


def step_intervals(cfg: DictConfig) -> list[int]:
    """Returns after how many steps callbacks of `cfg` ask to act."""
    # A node that is no mapping is refused when the callbacks are built.
    nodes = [node for node in cfg.callbacks.values() if isinstance(node, DictConfig)]
    asked = [node.get(key) for node in nodes for key in ("every", "save_freq", "update_freq")]
    asked = [1 if steps == "batch" else steps for steps in asked]  # as in TensorBoard's update_freq
    return [steps for steps in asked if is_integer(steps) and steps > 0]


def build_callbacks(cfg: DictConfig, model: Any) -> list[Any]:
    """Builds the callbacks of `cfg` that are not null, and checks that they fit the model."""
    import keras

    built = instantiate(cfg.callbacks, "callbacks")
    callbacks = [
        _check_built(f"callbacks.{name}", one, keras.callbacks.Callback, "a callback")
        for name, one in built.items()
        if one is not None
    ]
    writers = [one for one in callbacks if isinstance(one, keras.callbacks.TensorBoard)]
    if writers and not has_tensorflow():
        print("TensorBoard's events are not written: keras.callbacks.TensorBoard needs TensorFlow")
        callbacks = [one for one in callbacks if one not in writers]
    for callback in callbacks:
        if hasattr(callback, "check"):
            call("callbacks", callback.check, model)
    return callbacks


def build_optimizer(cfg: DictConfig, model: Any) -> Any:
    """Builds the optimizer of `cfg`, with `network.head_rate` times its rate for the heads."""
    import keras

    from dann.optimizers import PerVariable
    from dann.optimizers.faster_heads import faster_heads

    built = instantiate(cfg.optimizer, "optimizer")
    optimizer = _check_built("optimizer", built, keras.optimizers.Optimizer, "an optimizer")
    if isinstance(optimizer, PerVariable):
        # Rules that do not fit raise their error now.
        call("optimizer", optimizer.build, model.trainable_variables)
    head_rate = cfg.network.get("head_rate", 1.0)
    if head_rate == 1:
        return optimizer
    return call("network.head_rate", faster_heads, model, optimizer, head_rate)


def _check_built(key: str, built: Any, kind: type, wanted: str) -> Any:
    """Returns what a node has built if it is what its place in the config needs."""
    if not isinstance(built, kind):
        raise ConfigError(f"{key} must name {wanted} as `_target_`. Received: {built!r}")
    return built
