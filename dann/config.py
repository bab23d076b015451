"""The only module that knows Hydra: the schema, the command line and the one door to objects."""

import dataclasses
import hashlib
import inspect
import json
import os
import pathlib
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import hydra
from hydra import compose
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from hydra.utils import get_object
from hydra.utils import instantiate as hydra_instantiate
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dann.startup import start_backend

TRUSTED = ("dann.", "keras.")
_NOT_OF_THE_RESULT = {"seed", "paths", "hydra", "callbacks", "compare"}


@dataclasses.dataclass
class TrainerConfig:
    """How long and how to train."""

    steps: int = MISSING
    steps_per_epoch: int = 100
    batch_size: int = 64
    steps_per_execution: int = 1
    jit_compile: bool = False
    run_eagerly: bool = False
    precision: str = "float32"
    oracle_curve: bool = False


@dataclasses.dataclass
class SelectionConfig:
    """Which label-free scores are computed, and what is chosen by them."""

    scores: list[str] = MISSING
    samples: int = MISSING
    keep: str | None = None
    rank_by: str | None = None


@dataclasses.dataclass
class PathsConfig:
    """Where things are read and written."""

    data_dir: str | None = None
    cache_dir: str = MISSING
    run_dir: str = MISSING


@dataclasses.dataclass
class TrainConfig:
    """Everything that `scripts/train.py` takes."""

    seed: int = 0
    compare: bool = True
    balanced: bool = False
    target_labelled: int = 0
    data: dict[str, Any] = MISSING
    network: dict[str, Any] = MISSING
    method: dict[str, Any] = MISSING
    schedule: dict[str, Any] = MISSING
    optimizer: dict[str, Any] = MISSING
    trainer: TrainerConfig = MISSING
    callbacks: dict[str, Any] = MISSING
    augmentation: dict[str, Any] = MISSING
    regularizers: dict[str, Any] = dataclasses.field(default_factory=dict)
    selection: SelectionConfig = MISSING
    paths: PathsConfig = MISSING
    experiment: Any = None
    debug: Any = None


@dataclasses.dataclass
class ReproduceConfig:
    """Everything that `scripts/reproduce.py` takes."""

    experiments: list[str] = MISSING
    methods: list[str] = MISSING
    seeds: list[int] = MISSING
    overrides: list[str] = MISSING
    jobs: int = 1
    runs_dir: str = MISSING
    results: str = MISSING
    bars: dict[str, float] = MISSING
    published: dict[str, dict[str, float]] = MISSING
    paths: PathsConfig = MISSING


@dataclasses.dataclass
class EvaluateConfig:
    """Everything that `scripts/evaluate.py` takes."""

    run: str = MISSING
    paths: PathsConfig = MISSING


ConfigStore.instance().store(name="train_schema", node=TrainConfig)
ConfigStore.instance().store(name="evaluate_schema", node=EvaluateConfig)
ConfigStore.instance().store(name="reproduce_schema", node=ReproduceConfig)


class ConfigError(Exception):
    """What the user can mend in the command or the files it names."""


def instantiate(node: Any, **kwargs: Any) -> Any:
    """Builds the object that a config node describes.

    Args:
        node: Node with `_target_`, a class or function of a trusted package.
        **kwargs: Arguments that are known at run time only.

    Returns:
        The object; nested nodes are built first and containers are plain `dict` and `list`.

    Raises:
        ConfigError: If a target is not in a trusted package, cannot be found, or refuses its
            arguments.
    """
    container = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    _check_targets(container)
    try:
        _check_origins(container)
        return hydra_instantiate(container, _convert_="all", **kwargs)
    except (HydraException, ImportError) as error:
        cause = error.__cause__ or error
        raise ConfigError(f"{_target_names(container)}: {cause}") from error


def build_domains(cfg: DictConfig) -> Any:
    """Loads the domains of `cfg.data`, sampled as `cfg.balanced` and `cfg.target_labelled` say.

    With `data.sources` the pairs of each of them with the target are joined.
    """
    from dann.data import several_sources

    node: Any = OmegaConf.to_container(cfg.data, resolve=True)
    sources = node.pop("sources", None)
    if sources:
        domains = several_sources([instantiate({**node, "source": name}) for name in sources])
    else:
        domains = instantiate(node)
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
        num_sources: Number of domains that the source is made of.

    Returns:
        A model. The method gets those parts of the network that its constructor names, made for
        inputs of the length that it tells.
    """
    # What has no target are values that parts and the optimizer refer to.
    nodes = {name: node for name, node in cfg.network.items() if isinstance(node, DictConfig)}
    network = {name: instantiate(part) for name, part in nodes.items() if "_target_" in part}
    backbone = network.pop("backbone")(input_shape=input_shape)
    features = backbone.output_shape[-1]
    # The baseline beside the method has none.
    regularizers = instantiate(cfg.regularizers).values() if method == cfg.method else ()
    method = instantiate(method)
    length = method.func.adversary_inputs(features, num_classes, **method.keywords)
    parts = {
        "label_head": network.pop("label_head")(features, num_classes),
        **{name: head(length) for name, head in network.items()},
        "num_sources": num_sources,
    }
    named = inspect.signature(method.func).parameters
    parts = {name: part for name, part in parts.items() if name in named}
    parts["regularizers"] = list(regularizers)
    return method(backbone, augmentation=instantiate(cfg.augmentation), **parts)


def build_optimizer(cfg: DictConfig, model: Any) -> Any:
    """Builds the optimizer of `cfg`; all but the backbone learns `network.head_rate` times as fast.

    Args:
        cfg: The composed config.
        model: The model to compile with it.
    """
    from dann.adaptation.faster_heads import faster_heads

    optimizer = instantiate(cfg.optimizer)
    head_rate = cfg.network.get("head_rate", 1.0)
    return optimizer if head_rate == 1 else faster_heads(model, optimizer, head_rate)


def settings_digest(cfg: Any) -> str:
    """Returns a digest of the settings that a run's result depends on, but its seed.

    What is off (null, false, 0 or empty) does not count, so that an option added later leaves the
    digests of earlier runs as they are.
    """
    settings: Any = OmegaConf.to_container(cfg, resolve=False)
    left_out = set(_NOT_OF_THE_RESULT)
    if not settings.get("selection", {}).get("keep"):
        left_out.add("selection")  # scores that only look on
    kept = {key: value for key, value in settings.items() if key not in left_out}
    return hashlib.sha256(json.dumps(_switched_on(kept), sort_keys=True).encode()).hexdigest()[:12]


def _switched_on(node):
    if isinstance(node, dict):
        parts = {key: _switched_on(value) for key, value in node.items()}
        return {key: value for key, value in parts.items() if value}
    return [_switched_on(value) for value in node] if isinstance(node, list) else node


def digest_of_command(overrides: Sequence[str]) -> str:
    """Returns the digest of the run that `scripts/train.py` makes of these arguments.

    Only within a `command`, whose `conf/` it reads.
    """
    return settings_digest(compose("train", list(overrides)))


def digest_of_run(directory: str | pathlib.Path) -> str | None:
    """Returns the digest of the settings of a finished run, or `None` if there is none."""
    directory = pathlib.Path(directory)
    if not (directory / "summary.json").is_file():
        return None
    return settings_digest(OmegaConf.load(directory / ".hydra/config.yaml"))


def command(config_name: str) -> Callable[[Callable], Callable[[], None]]:
    """Turns a function of a composed config into a command-line program.

    The function is a generator in two parts: it prepares, yields once, and does the work. An error
    in the first part is the user's to mend: it is told in one line on standard error, the exit
    status is 1, and the run directory that Hydra made is removed. An error in the second part is
    shown in full, and the directory stays; in a sweep (`-m`) the other jobs go on. With
    `HYDRA_FULL_ERROR=1` both are shown in full.

    Args:
        config_name: Primary config in `conf/`.

    Returns:
        A decorator that gives a function without arguments.
    """

    full_errors = os.environ.get("HYDRA_FULL_ERROR") == "1"

    def decorate(work: Callable) -> Callable[[], None]:
        failed = []

        def job(cfg: DictConfig) -> Any:
            steps = work(cfg)
            try:
                _check_targets(OmegaConf.to_container(cfg, resolve=True))
                _check_paths(cfg)
                _check_given(cfg)
                start_backend()
                next(steps)
            except (ConfigError, ValueError, TypeError, OSError, OmegaConfBaseException) as error:
                if full_errors:
                    raise
                _remove_unused(pathlib.Path(HydraConfig.get().runtime.output_dir))
                failed.append(error)
                return _report(error)
            if HydraConfig.get().mode != RunMode.MULTIRUN:
                return next(steps, None)
            try:
                return next(steps, None)
            except Exception as error:  # the other jobs of the sweep go on
                traceback.print_exc()
                failed.append(error)
                return None

        def program() -> None:
            conf = pathlib.Path(inspect.getfile(work)).resolve().parent.parent / "conf"
            main = hydra.main(version_base="1.3", config_path=str(conf), config_name=config_name)
            os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then leaves its errors to us
            try:
                main(job)()
            except (HydraException, OmegaConfBaseException) as error:
                if full_errors:
                    raise
                failed.append(error)
                _report(error)
            if failed:
                sys.exit(1)

        return program

    return decorate


class Ranking(Callback):
    """Ranks the runs of a sweep when it has ended; see `dann.training.sweep.rank_sweep`."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes the table and the figure into the sweep's directory, and prints the table."""
        directory = pathlib.Path(config.hydra.sweep.dir)
        score = config.selection.rank_by
        begun = sorted(directory.rglob(".hydra/overrides.yaml"), key=lambda p: p.stat().st_mtime)
        overrides = {
            str(path.parent.parent.relative_to(directory)): list(OmegaConf.load(path))
            for path in begun
        }
        if score is None or len(overrides) < 2:
            return
        from dann.training.sweep import rank_sweep

        table = rank_sweep(directory, score, overrides)
        if table is not None:
            print(f"{table}\nWritten to {directory / 'sweep.csv'}")


def _targets(node):
    """Every `_target_` in a container."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield str(node["_target_"])
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from _targets(value)


def _check_targets(node):
    """Refuses targets by their names alone, before anything is imported."""
    for target in _targets(node):
        if not target.startswith(TRUSTED):
            _refuse(target)


def _check_origins(node):
    """Refuses what a trusted module has only imported, such as `dann.config.os.system`."""
    for target in _targets(node):
        if not f"{getattr(get_object(target), '__module__', '')}.".startswith(TRUSTED):
            _refuse(target)


def _refuse(target):
    raise ConfigError(
        f"`_target_` must be in one of {[prefix[:-1] for prefix in TRUSTED]}, because what it "
        f"names is run. Received: {target}"
    )


def _target_names(node):
    return node.get("_target_", "config") if isinstance(node, dict) else "config"


def _check_paths(cfg):
    data_dir = cfg.paths.data_dir
    if data_dir is not None and not pathlib.Path(data_dir).is_dir():
        raise ConfigError(f"paths.data_dir must be a directory that is there. Received: {data_dir}")


def _check_given(cfg):
    several = {"data.source"} if OmegaConf.select(cfg, "data.sources") else set()
    missing = sorted(OmegaConf.missing_keys(cfg) - several)
    if missing:
        raise ConfigError(f"{', '.join(missing)} must be given. Received: nothing")


def _report(error):
    """Tells an error, and the first line of its cause, in one line."""
    message = str(error)
    cause = str(error.__cause__ or "").partition("\n")[0]
    if cause not in message and not isinstance(error, ConfigError):
        message = f"{message}: {cause}"
    print(f"error: {' '.join(message.split())}", file=sys.stderr)


def _remove_unused(run_dir):
    """Removes a run directory that holds nothing but what Hydra put there."""
    here = pathlib.Path.cwd()
    if not run_dir.is_dir() or run_dir.resolve() in (here, *here.parents):
        return
    others = [path for path in run_dir.iterdir() if path.name != ".hydra" and path.suffix != ".log"]
    if not others:
        shutil.rmtree(run_dir)
        if run_dir.parent.name in ("runs", "multirun") and not any(run_dir.parent.iterdir()):
            run_dir.parent.rmdir()
