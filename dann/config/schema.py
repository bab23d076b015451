"""The keys of each script's config with their types, so that a wrong value is refused."""

import dataclasses
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from dann.training import Distribution, Trainer


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
    resume: bool = False
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
    """Everything that `scripts/reproduce.py` takes."""

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
class EvaluateConfig:
    """Everything that `scripts/evaluate.py` takes."""

    run: str = MISSING
    target: str | None = None
    paths: PathsConfig = MISSING


@dataclasses.dataclass
class DiagnoseConfig:
    """Everything that `scripts/diagnose.py` takes."""

    run: str = MISSING
    full: bool = False
    diagnostics: list[str] | None = None
    samples: int = 500
    step_samples: int = 32
    seed: int = 0
    paths: PathsConfig = MISSING


@dataclasses.dataclass
class ExportConfig:
    """Everything that `scripts/export.py` takes."""

    run: str = MISSING
    format: str = "packed"
    examples: int = 1000
    tolerance: float = 1e-3
    paths: PathsConfig = MISSING


@dataclasses.dataclass
class BenchmarkConfig:
    """Everything that `benchmarks/run.py` takes."""

    suite: str = MISSING
    rounds: int = 5
    seconds: float = 1.0
    before: str | None = None
    paths: PathsConfig = MISSING


STORE: Any = ConfigStore.instance()
STORE.store(name="train_schema", node=TrainConfig)
STORE.store(name="evaluate_schema", node=EvaluateConfig)
STORE.store(name="diagnose_schema", node=DiagnoseConfig)
STORE.store(name="reproduce_schema", node=ReproduceConfig)
STORE.store(name="export_schema", node=ExportConfig)
STORE.store(name="benchmark_schema", node=BenchmarkConfig)
