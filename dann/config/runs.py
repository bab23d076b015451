"""The config of a run: kept, compared when it resumes, read afterwards; and the end of a sweep."""

import json
import os
import pathlib
import shutil
import sys
import uuid
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from dann.config.building import ConfigError, iterate_entries
from dann.config.schema import TrainConfig
from dann.experiments.sweep import rank_sweep, save_tradeoff
from dann.training import RunDirectory

# Settings that may change when a run resumes, because the results do not depend on them.
_FREE = ("resume", "paths", "experiment", "debug", "distribution")
_FREE_OF_TRAINER = ("check_every", "steps_per_execution")
_FREE_CALLBACKS = (
    "dann.training.EpochTable",
    "keras.callbacks.CSVLogger",
    "keras.callbacks.ModelCheckpoint",
    "keras.callbacks.TensorBoard",
)
# Settings of a method, which its baseline does not see.
_OF_METHODS = ("method", "schedule", "regularizers", "selection", "callbacks", "compare")
_LENGTHS = ("trainer.steps", "trainer.epochs")  # a run is as long as one of them says


def collect_settings(cfg: Any) -> dict[str, Any]:
    """Returns the settings that a run's result depends on, by their dotted keys.

    It leaves out `resume`, `paths`, `distribution`, `trainer.check_every`,
    `trainer.steps_per_execution`, the names of experiments, how much callbacks print, and callbacks
    that only write logs or models.

    Args:
        cfg: The composed config of `scripts/train.py`.
    """
    plain: Any = OmegaConf.to_container(cfg)
    plain["paths"] = {key: f"<paths.{key}>" for key in plain["paths"]}  # they may move
    epochs = plain["trainer"].get("epochs")
    if epochs is not None:  # the steps are counted when the data is known
        plain["trainer"] |= {"steps": epochs, "steps_per_epoch": None}
    settings: Any = OmegaConf.to_container(OmegaConf.create(plain), resolve=True)
    for key in _FREE:
        settings.pop(key, None)
    for key in _FREE_OF_TRAINER:
        settings["trainer"].pop(key, None)
    callbacks = settings.get("callbacks") or {}
    settings["callbacks"] = {
        name: {key: value for key, value in node.items() if key != "verbose"}
        for name, node in callbacks.items()
        if node and node.get("_target_") not in _FREE_CALLBACKS
    }
    return {
        key: value
        for key, value in iterate_entries(settings)
        if not isinstance(value, dict | list) or not value
    }


def is_done(cfg: Any) -> bool:
    """Returns whether the run that `cfg` resumes is already finished, and prints it if so.

    Raises:
        ConfigError: If the run began with other settings. It may become longer, if it has a
            checkpoint and no schedule follows its steps.
        FileNotFoundError: If its config is gone.
    """
    run = RunDirectory(cfg.paths.run_dir)
    if not cfg.resume or not (run.is_finished() or run.has_checkpoints()):
        return False
    told, grown = _changes(cfg, run)
    if told:
        raise ConfigError(
            "A run resumes with the settings that it began with; choose another hydra.run.dir, "
            f"remove {run}, or give resume=false to start again. Received: {'; '.join(told)}"
        )
    if grown or not run.is_finished():
        return False
    print(f"Finished already: {run}")
    return True


def _changes(cfg, run):
    """What differs from the settings that a run began with, and whether it shall be longer."""
    now, then = collect_settings(cfg), collect_settings(load_run_config(run.path))
    changed = {key for key in {**then, **now} if then.get(key) != now.get(key)}
    grown = {key for key in changed & {*_LENGTHS} if _is_longer(then.get(key), now[key])}
    if not run.has_checkpoints():  # it would begin anew
        grown = set()
    told = [f"{key} {then.get(key)} then, {now.get(key)} now" for key in sorted(changed - grown)]
    return told, bool(grown)


def choose_run(cfg: Any) -> None:
    """Lets `resume=true` without `hydra.run.dir` mean the newest unfinished run of these settings.

    It looks among the neighbours of the folder that a new run would get, and sets
    `cfg.paths.run_dir`.

    Raises:
        ConfigError: If there is none; it names up to three unfinished runs, and what differs.
    """
    hydra = HydraConfig.get()
    is_named = any(text.lstrip("+").startswith("hydra.run.dir=") for text in hydra.overrides.hydra)
    if not cfg.resume or is_named or hydra.mode != RunMode.RUN:
        return
    folder = pathlib.Path(cfg.paths.run_dir).parent
    others = []
    for run in map(RunDirectory, sorted(folder.iterdir(), reverse=True)):
        if run.is_finished() or not run.has_checkpoints():
            continue
        try:
            told, _ = _changes(cfg, run)
        except (ConfigError, FileNotFoundError):  # of another version, perhaps
            continue
        if not told:
            print(f"Resumes {run}")
            cfg.paths.run_dir = str(run.path)
            return
        others.append(f"{run} ({told[0]})")
    found = f"; unfinished are {', '.join(others[:3])}" if others else ""
    raise ConfigError(f"No unfinished run in {folder.name}/ began with these settings{found}")


def shared_baseline(cfg: Any) -> dict[str, Any] | None:
    """Returns the summary of an earlier job of a sweep whose baseline this one would train again.

    The baseline is the same if all settings but those of the method are. A job of
    `method=source_only` is a baseline itself.
    """
    hydra = HydraConfig.get()
    if hydra.mode != RunMode.MULTIRUN:
        return None
    mine = _of_baseline(collect_settings(cfg))
    for run in map(RunDirectory, sorted(pathlib.Path(hydra.sweep.dir).iterdir())):
        summary = _with_baseline(run.summary()) if run.is_finished() else {}
        is_like_it = "source_only/seconds" in summary and summary["seed"] == cfg.seed
        if is_like_it and _of_baseline(collect_settings(load_run_config(run.path))) == mine:
            return summary
    return None


def _with_baseline(summary):
    """The summary, of a baseline itself also by the names that a baseline has beside a method."""
    if summary["method"] != "source_only" or "kept_by" in summary:
        return summary
    kinds = "seconds", "cpu_seconds", "source/", "target/", "selection/", "probe/"
    return summary | {f"source_only/{k}": summary[k] for k in summary if k.startswith(kinds)}


def _of_baseline(settings):
    return {k: v for k, v in settings.items() if k.partition(".")[0] not in _OF_METHODS}


def serialize_config(cfg: Any) -> dict[str, str]:
    """Returns the config and the arguments of a run as YAML, by the names that Hydra gives them."""
    parts = {"config": cfg, "overrides": HydraConfig.get().overrides.task}
    return {f"{name}.yaml": OmegaConf.to_yaml(part) for name, part in parts.items()}


def load_run_config(directory: str | os.PathLike, paths: Any = None) -> Any:
    """Returns the config that a run was made with, to build its data again.

    Args:
        directory: A run directory of `scripts/train.py`.
        paths: `data_dir` and `cache_dir` that replace the run's, unless they are null. Defaults to
            `None`: both are the run's.

    Raises:
        FileNotFoundError: If the config is not there.
        ConfigError: If it cannot be read.
    """
    run = RunDirectory(directory)
    try:
        found = OmegaConf.create(run.config())
        cfg: Any = OmegaConf.merge(OmegaConf.structured(TrainConfig), found)
    except FileNotFoundError:
        raise
    except Exception as error:  # YAML and OmegaConf raise many kinds
        raise ConfigError(f"Cannot read {run.config_file}: {error}") from error
    cfg.paths.run_dir = str(directory)
    for key in ("data_dir", "cache_dir"):
        if paths is not None and paths[key] is not None:
            cfg.paths[key] = paths[key]
    return cfg


class Ranking(Callback):
    """Ranks the runs of a sweep when it has ended; see `dann.experiments.sweep.rank_sweep`.

    A launcher may run the jobs in other processes or on other machines, each with a copy of this
    object. So each job leaves a record in the sweep's directory, which is read at the end. If a job
    has not finished, the exit status is 1.
    """

    def __init__(self) -> None:
        self.sweep = uuid.uuid4().hex  # the same in all copies

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Records the folder and the arguments of a job."""
        hydra = config.hydra
        if hydra.mode == RunMode.MULTIRUN:
            # The unresolved text, because it may refer to keys that this config lacks.
            record = hydra.runtime.output_dir, OmegaConf.to_container(hydra.overrides.task)
            folder = _folder(hydra.sweep.dir)
            folder.mkdir(exist_ok=True)
            (folder / f"{self.sweep}-{hydra.job.num:06d}.json").write_text(json.dumps(record))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes table and figure into the sweep's directory, and prints the table.

        Of runs with nuisances it is the picture of accuracy against leakage.
        """
        directory = pathlib.Path(config.hydra.sweep.dir)
        records = sorted(_folder(directory).glob(f"{self.sweep}-*.json"))
        jobs = dict(json.loads(record.read_text()) for record in records)
        shutil.rmtree(_folder(directory), ignore_errors=True)
        finished = [RunDirectory(folder).is_finished() for folder in jobs]
        score = config.selection.rank_by
        overrides = {os.path.relpath(folder, directory): job for folder, job in jobs.items()}
        if told := save_tradeoff(directory, overrides) if any(finished) else None:
            print(f"{told}\nWritten to {directory / 'tradeoff.png'}", flush=True)
        elif score is not None and len(jobs) > 1:
            table = rank_sweep(directory, score, overrides)
            if table is not None:
                print(f"{table}\nWritten to {directory / 'sweep.csv'}", flush=True)
            elif any(finished):
                print(f"Not ranked: no run has selection/{score}", flush=True)
        if not all(finished):
            sys.exit(1)


def _is_longer(then, now):
    return None not in (then, now) and now > then


def _folder(directory):
    return pathlib.Path(directory) / ".jobs"
