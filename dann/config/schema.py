"""The keys of the config of each script, with types, so that Hydra rejects wrong values."""

import dataclasses
import enum
import pathlib
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from dann.training.devices import Distribution  # imports no Keras
from dann.training.trainer import Trainer  # imports no Keras

_PACKAGE = pathlib.Path(__file__).parents[1]
# A wheel contains configs and scripts inside the package, a clone next to the package.
CONF = (_PACKAGE if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent) / "conf"


@dataclasses.dataclass
class SelectionConfig:
    """Label-free scores of a run, and the selection by them."""

    scores: list[str] = MISSING
    samples: int = MISSING
    keep: str | None = None
    rank_by: str | None = None


@dataclasses.dataclass
class PathsConfig:
    """Folders that a script reads and writes."""

    data_dir: str | None = None
    cache_dir: str = MISSING
    run_dir: str = MISSING
    work_dir: str | None = None


@dataclasses.dataclass
class TrainConfig:
    """Config of `scripts/train.py`."""

    seed: int = 0
    compare: bool = True
    balanced: bool = False
    target_labeled: int = 0
    resume: bool = False
    overwrite: bool = False
    data: dict[str, Any] = MISSING
    network: dict[str, Any] = MISSING
    method: dict[str, Any] = MISSING
    schedule: dict[str, Any] = MISSING
    optimizer: dict[str, Any] = MISSING
    trainer: Trainer = MISSING
    distribution: Distribution = dataclasses.field(default_factory=Distribution)
    callbacks: dict[str, Any] = MISSING
    augmentation: dict[str, Any] = MISSING
    regularizers: dict[str, Any] = dataclasses.field(default_factory=dict)
    selection: SelectionConfig = MISSING
    paths: PathsConfig = MISSING
    experiment: Any = None
    debug: Any = None


@dataclasses.dataclass
class ReproduceConfig:
    """Config of `scripts/reproduce.py`."""

    experiments: list[str] = MISSING
    methods: list[str] = MISSING
    seeds: list[int] = MISSING
    overrides: list[str] = MISSING
    jobs: int = 1
    runs_dir: str = MISSING
    results: str = MISSING
    published: dict[str, dict[str, float | None]] = MISSING
    paths: PathsConfig = MISSING


@dataclasses.dataclass
class RunConfig:
    """Keys of scripts that read a run."""

    run: str = MISSING
    paths: PathsConfig = MISSING


@dataclasses.dataclass
class EvaluateConfig(RunConfig):
    """Config of `scripts/evaluate.py`."""

    target: str | None = None
    label: int | None = None
    labels_file: str | None = None


@dataclasses.dataclass
class DiagnoseConfig(RunConfig):
    """Config of `scripts/diagnose.py`."""

    full: bool = False
    diagnostics: list[str] | None = None
    samples: int = 500
    step_samples: int = 32
    seed: int = 0


class ExportFormat(enum.Enum):
    """Formats of `dann.deployment.export`; Hydra rejects others before Keras is imported."""

    packed = "packed"
    c = "c"
    saved_model = "saved_model"
    litert = "litert"
    onnx = "onnx"


@dataclasses.dataclass
class ExportConfig(RunConfig):
    """Config of `scripts/export.py`."""

    format: ExportFormat = ExportFormat.packed
    examples: int = 1000
    tolerance: float = 1e-3


@dataclasses.dataclass
class BenchmarkConfig:
    """Config of `benchmarks/run.py`."""

    suite: str = MISSING
    rounds: int = 5
    seconds: float = 1.0
    before: str | None = None
    paths: PathsConfig = MISSING


for _name, _schema in {
    "train": TrainConfig,
    "evaluate": EvaluateConfig,
    "diagnose": DiagnoseConfig,
    "reproduce": ReproduceConfig,
    "export": ExportConfig,
    "benchmark": BenchmarkConfig,
}.items():
    ConfigStore.instance().store(name=f"{_name}_schema", node=_schema)
