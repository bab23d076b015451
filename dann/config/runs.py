"""The config of a run: stored, compared when a run resumes, and loaded afterwards."""

import os
import pathlib
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from dann.config.data_paths import resolve_paths
from dann.config.errors import ConfigError, iterate_entries
from dann.config.schema import TrainConfig
from dann.training.run_directory import RunDirectory

# Settings that may change when a run resumes, because the results do not depend on them.
_IGNORED_GROUPS = ("resume", "overwrite", "paths", "experiment", "debug", "distribution")
_LOGGING_CALLBACKS = (
    "dann.training.EpochTable",
    "keras.callbacks.CSVLogger",
    "keras.callbacks.ModelCheckpoint",
    "keras.callbacks.TensorBoard",
)
# Settings of a method, on which its baseline does not depend.
_METHOD_SETTINGS = ("method", "schedule", "regularizers", "selection", "callbacks", "compare")
# Beginnings of the keys of results in a summary.
_RESULTS = ("seconds", "cpu_seconds", "source/", "target/", "selection/", "probe/")
_LENGTHS = ("trainer.steps", "trainer.epochs")  # one of them is the length of a run


class SelectedRun(NamedTuple):
    """The run of a command.

    Attributes:
        directory: Directory of the run.
        is_done: Whether the run is already finished with these settings.
    """

    directory: RunDirectory
    is_done: bool


def collect_settings(cfg: Any) -> dict[str, Any]:
    """Returns the settings that the results of a run depend on, by their dotted keys.

    The result leaves out `resume`, `overwrite`, `paths`, `distribution`,
    `trainer.steps_per_execution`, the names of experiments, `verbose` of callbacks, and callbacks
    that only write logs or models.

    Args:
        cfg: Composed config of a training run.
    """
    plain: Any = OmegaConf.to_container(cfg)
    work_dir = plain["paths"].get("work_dir")
    plain["paths"] = {key: f"<paths.{key}>" for key in plain["paths"]}  # the paths may change
    epochs = plain["trainer"].get("epochs")
    if epochs is not None:  # the number of steps is known only after the data are loaded
        plain["trainer"] |= {"steps": epochs, "steps_per_epoch": None}
    settings: Any = OmegaConf.to_container(OmegaConf.create(plain), resolve=True)
    for key in _IGNORED_GROUPS:
        settings.pop(key, None)
    settings["trainer"].pop("steps_per_execution")
    settings["data"] = resolve_paths(settings["data"], work_dir)
    settings["callbacks"] = {
        name: {key: value for key, value in node.items() if key != "verbose"}
        for name, node in (settings.get("callbacks") or {}).items()
        if node and node.get("_target_") not in _LOGGING_CALLBACKS
    }
    return {
        key: value
        for key, value in iterate_entries(settings)
        if not isinstance(value, dict | list) or not value
    }


def find_run(cfg: Any) -> SelectedRun:
    """Finds the run that a command starts or resumes, or that it has finished. Changes no result.

    `resume=true` without `hydra.run.dir` selects the newest unfinished run of the same settings,
    among the siblings of the directory that a new run would have.

    Raises:
        ConfigError: If the run in the directory has other settings, or checkpoints although
            `resume` is false, and `overwrite` is false. A resumed run may become longer; see
            `keep_schedules`.
        FileExistsError: If a run may not start there (see `RunDirectory.check_free`).
        FileNotFoundError: If the config of the run is missing.
    """
    run, hydra = RunDirectory(cfg.paths.run_dir), HydraConfig.get()
    is_sweep = hydra.mode == RunMode.MULTIRUN
    is_named = any(text.lstrip("+").startswith("hydra.run.dir=") for text in hydra.overrides.hydra)
    if cfg.resume and not is_named and not is_sweep:
        return SelectedRun(_find_unfinished_run(cfg, run.path.parent), is_done=False)
    resumes = cfg.resume and (run.is_finished() or run.has_checkpoints())
    if not resumes:
        run.manifest.check(run.config_files)
        run.check_free(cfg.overwrite)
        if cfg.overwrite or not run.manifest.path.exists() or not run.config_file.is_file():
            return SelectedRun(run, is_done=False)
    differences, is_longer = _compare_settings(cfg, run)
    if differences:
        if len(differences) > 5:
            differences[5:] = [f"and {len(differences) - 5} more"]
        resumed_cfg = cfg.copy()
        resumed_cfg.resume = True
        advice = "" if _compare_settings(resumed_cfg, run)[0] else "Continue it with resume=true. "
        raise ConfigError(
            f"Expected the settings of the run in {run}. Received: {'; '.join(differences)}. "
            f"{advice}Choose another hydra.run.dir, or start again with resume=false "
            "overwrite=true, which deletes that run"
        )
    if not resumes and run.has_checkpoints():
        raise ConfigError(
            f"Expected no unfinished run in {run}. Continue it with resume=true, or start again "
            "with overwrite=true, which deletes its checkpoints"
        )
    return SelectedRun(run, is_done=resumes and run.is_finished() and not is_longer)


def _find_unfinished_run(cfg, folder):
    """Returns the newest unfinished run with the settings of `cfg` in a folder."""
    unfinished_runs = []
    for run in map(RunDirectory, sorted(folder.iterdir(), reverse=True)):
        if run.is_finished() or not run.has_checkpoints():
            continue
        try:
            differences, is_longer = _compare_settings(cfg, run)
        except (ConfigError, FileNotFoundError):  # perhaps a run of another version
            continue
        if not differences and not is_longer:
            return run
        unfinished_runs.append(f"{run} ({(differences or ['fewer steps'])[0]})")
    unfinished = f". Unfinished runs: {', '.join(unfinished_runs[:3])}" if unfinished_runs else ""
    raise ConfigError(f"No unfinished run in {folder.name}/ has these settings{unfinished}")


def _compare_settings(cfg, run):
    """Returns the differences from the settings of a run, and whether `cfg` makes it longer."""
    settings, saved_settings = collect_settings(cfg), collect_settings(load_run_config(run.path))
    changed_keys = {
        key
        for key in {**saved_settings, **settings}
        if saved_settings.get(key) != settings.get(key)
    }
    accepted_keys: set[str] = set()
    is_resumable = cfg.resume and run.has_checkpoints()  # otherwise, the run would start again
    if is_resumable:
        for key in changed_keys & {*_LENGTHS}:
            saved_length, length = saved_settings.get(key), settings[key]
            if None not in (saved_length, length) and length > saved_length:
                accepted_keys.add(key)
    if is_resumable or not changed_keys.isdisjoint(_LENGTHS):  # listed or accepted above
        accepted_keys |= changed_keys & saved_settings.keys() & _find_schedule_keys(cfg)
    differences = [
        f"{key}={settings.get(key)} instead of {saved_settings.get(key)}"
        for key in sorted(changed_keys - accepted_keys)
    ]
    return differences, not accepted_keys.isdisjoint(_LENGTHS)


def _find_schedule_keys(cfg):
    """Returns the keys of settings that refer to `trainer.steps`, such as lengths of schedules."""
    longer_cfg = cfg.copy()
    for key in _LENGTHS:
        if (length := OmegaConf.select(cfg, key)) is not None:
            OmegaConf.update(longer_cfg, key, length + 1)
    # Settings that change with the length of the run refer to it.
    longer_settings, settings = collect_settings(longer_cfg), collect_settings(cfg)
    keys = {key for key, value in longer_settings.items() if value != settings.get(key)}
    return keys.difference(_LENGTHS)


def keep_schedules(cfg: Any, directory: str | os.PathLike) -> dict[str, Any]:
    """Sets the lengths of schedules that refer to `trainer.steps` to the lengths in a resumed run.

    A run that becomes longer therefore continues with the final values of its schedules.

    Args:
        cfg: Composed config of a training run, which changes.
        directory: Directory of the run.

    Returns:
        The settings that have changed, by their dotted keys.
    """
    saved_cfg = load_run_config(directory)
    saved_settings, settings = collect_settings(saved_cfg), collect_settings(cfg)
    # Entries of a referenced group, such as `method.strength: ${schedule}`, change at their origin.
    own_keys = {key for key, _ in iterate_entries(OmegaConf.to_container(cfg))}
    keys = _find_schedule_keys(cfg) & own_keys
    keys = {key for key in keys if saved_settings[key] != settings[key]}
    saved_lengths = {key: OmegaConf.select(saved_cfg, key) for key in sorted(keys)}
    for key, value in saved_lengths.items():
        OmegaConf.update(cfg, key, value)
    return saved_lengths


def find_shared_baseline(cfg: Any) -> dict[str, Any] | None:
    """Returns the summary of an earlier job of a sweep that has the same baseline, if there is one.

    Two runs have the same baseline if all settings that do not belong to the method are equal. A
    job of `method=source_only` is a baseline itself.
    """
    hydra = HydraConfig.get()
    if hydra.mode != RunMode.MULTIRUN:
        return None
    settings = _get_baseline_settings(cfg)
    for run in map(RunDirectory, sorted(pathlib.Path(hydra.sweep.dir).iterdir())):
        if not run.is_finished():
            continue
        summary = run.summary()
        if summary["method"] == "source_only" and "kept_by" not in summary:
            # Its results are those of a baseline.
            names = [name for name in summary if name.startswith(_RESULTS)]
            summary |= {f"source_only/{name}": summary[name] for name in names}
        has_baseline = "source_only/seconds" in summary and summary["seed"] == cfg.seed
        if has_baseline and _get_baseline_settings(load_run_config(run.path)) == settings:
            return summary
    return None


def _get_baseline_settings(cfg):
    settings = collect_settings(cfg)
    return {k: v for k, v in settings.items() if k.partition(".")[0] not in _METHOD_SETTINGS}


def get_step_intervals(cfg: Any) -> list[int]:
    """Returns the numbers of steps after which callbacks of `cfg` act within an epoch."""
    nodes = [node for node in cfg.callbacks.values() if OmegaConf.is_dict(node)]
    keys = "every_n_steps", "save_freq", "update_freq"
    values = [node.get(key) for node in nodes for key in keys]
    values = [1 if value == "batch" else value for value in values]  # for TensorBoard and Keras
    return [value for value in values if isinstance(value, int) and value > 0]


def serialize_config(cfg: Any) -> dict[str, str]:
    """Returns the config and the overrides of a run as YAML, by Hydra's file names.

    The config contains the working directory, at which relative paths start.
    """
    cfg = cfg.copy()
    cfg.paths.work_dir = os.path.abspath(cfg.paths.work_dir or "")
    parts = {"config": cfg, "overrides": HydraConfig.get().overrides.task}
    return {f"{name}.yaml": OmegaConf.to_yaml(part) for name, part in parts.items()}


def load_run_config(directory: str | os.PathLike, paths: Any = None) -> Any:
    """Loads the config of a run, for example to build its data again.

    Args:
        directory: A run directory.
        paths: Object with `data_dir`, `cache_dir` and `work_dir`, which replace the paths of the
            run unless they are null. Defaults to `None`: the run's paths.

    Raises:
        FileNotFoundError: If the config does not exist.
        ConfigError: If the config cannot be read.
    """
    run = RunDirectory(directory)
    try:
        loaded = OmegaConf.create(run.config())
        cfg: Any = OmegaConf.merge(OmegaConf.structured(TrainConfig), loaded)
    except FileNotFoundError:
        raise
    except Exception as error:  # YAML and OmegaConf raise many types
        raise ConfigError(f"Cannot read {run.config_file}: {error}") from error
    cfg.paths.run_dir = str(directory)
    for key in ("data_dir", "cache_dir", "work_dir"):
        if paths is not None and paths[key] is not None:
            cfg.paths[key] = os.path.abspath(paths[key])
    return cfg
