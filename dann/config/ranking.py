import contextlib
import itertools
import json
import os
import pathlib
import sys
import uuid
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, flag_override

from dann.config.script import format_command, hide_native_logs
from dann.training.manifest import Manifest
from dann.training.overrides import format_argument

_RECOMMENDED_FILES = "classifier.keras", "predictions.csv", "encoding.csv", "standardizer.json"
_SWEEP_FILES = ["multirun.yaml", "sweep.csv", "sweep.png", "tradeoff.png"]
_SWEEP_FILES += [f"recommended/{name}" for name in _RECOMMENDED_FILES]


def prepare_distillation(directory: pathlib.Path) -> tuple[Any, Any, int]:
    """Returns the data of a run, a new classifier with its network, and its number of steps.

    Raises:
        ValueError: If the data are not those on which the run trained.
    """
    from dann.config.building import build_domains, build_model, count_steps
    from dann.config.runs import load_run_config
    from dann.training.evaluate_run import find_data_run
    from dann.training.preparation import start
    from dann.training.run_directory import RunDirectory

    run = find_data_run(RunDirectory(directory))
    cfg = load_run_config(run.path)
    domains = build_domains(cfg, run.standardizer(), is_trained=True)
    run.check_data(domains.identity)
    count_steps(cfg, domains)
    start(cfg.seed, cfg.trainer.precision)
    method = {"_target_": "dann.SourceOnly", "_partial_": True}
    model = build_model(cfg, method, domains, is_baseline=True)
    return domains, model.classifier, cfg.trainer.steps


class Ranking(Callback):
    """Ranks the runs of a sweep when it ends; see `dann.experiments.sweep.rank_sweep`.

    A launcher may run the jobs in other processes or on other machines, each with a copy of this
    object. Therefore each job writes a record into the directory of the sweep, and the records are
    read at the end. If a job did not finish, the exit status is 1.
    """

    def __init__(self) -> None:
        self.sweep = uuid.uuid4().hex  # equal in all copies

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Adds the folders that Hydra will create to the config; see `dann.config.script`."""
        # `None` for a wrong reference, which Hydra reports next.
        folder = OmegaConf.select(config, "hydra.run.dir", throw_on_resolution_failure=False)
        path = pathlib.Path(folder or ".").absolute()
        with flag_override(config.hydra.runtime, ["readonly", "struct"], False):
            new_folders = [str(p) for p in (path, *path.parents) if not p.exists()]
            config.hydra.runtime.new_folders = new_folders

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Ends the script if the sweep would overwrite a file that no sweep wrote."""
        manifest = Manifest(config.hydra.sweep.dir, "sweep")
        try:
            manifest.check(manifest.directory / name for name in _SWEEP_FILES)
        except FileExistsError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)  # of other exceptions, Hydra prints only a warning
        manifest.record([manifest.directory / "multirun.yaml"])  # Hydra writes the file next

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Records the folder and the arguments of a job."""
        self._write_record(config, is_done=False)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Records that a job has finished without an error."""
        if job_return.status == JobStatus.COMPLETED and job_return.return_value:
            self._write_record(config, is_done=True)

    def _write_record(self, config, is_done):
        hydra = config.hydra
        if hydra.mode == RunMode.MULTIRUN:
            # The overrides stay unresolved, because they may refer to keys that `config` lacks.
            overrides = OmegaConf.to_container(hydra.overrides.task)
            record = hydra.runtime.output_dir, overrides, is_done
            folder = pathlib.Path(hydra.sweep.dir) / ".jobs"
            folder.mkdir(exist_ok=True)
            (folder / f"{self.sweep}-{hydra.job.num:06d}.json").write_text(json.dumps(record))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes a table and a figure into the directory of the sweep, and prints the table.

        For runs with nuisances the figure shows accuracy against leakage.
        """
        # A single run does not need these modules, which import Keras.
        with hide_native_logs():
            from dann.experiments.sweep import rank_sweep, save_tradeoff
            from dann.training.run_directory import RunDirectory

        directory = pathlib.Path(config.hydra.sweep.dir)
        records = sorted((directory / ".jobs").glob(f"{self.sweep}-*.json"))
        jobs = {}
        for folder, overrides, is_done in (json.loads(path.read_text()) for path in records):
            # A job that was refused leaves the results of another run in its folder.
            if is_done or not RunDirectory(folder).is_finished():
                jobs[folder] = overrides
        for record in records:
            record.unlink()
        with contextlib.suppress(OSError):  # the folder contains other files
            (directory / ".jobs").rmdir()
        finished = [RunDirectory(folder).is_finished() for folder in jobs]
        score = config.selection.rank_by
        overrides = {os.path.relpath(folder, directory): job for folder, job in jobs.items()}
        tradeoff = save_tradeoff(directory, overrides) if any(finished) else None
        if tradeoff:
            print(f"{tradeoff}\nWritten to {directory / 'tradeoff.png'}", flush=True)
        elif score is not None and len(jobs) > 1:
            table = rank_sweep(directory, score, overrides, prepare_distillation)
            if table is not None:
                recommended = RunDirectory(directory / "recommended")
                print(f"{table}\nWritten to {directory}: sweep.csv, sweep.png")
                if recommended.classifier_file.is_file():
                    names = [file.name for file in recommended.model_files if file.is_file()]
                    print(f"Written to {recommended}: {', '.join(names)}")
                    arguments = format_argument("run", recommended)
                    summary = RunDirectory(next(itertools.compress(jobs, finished))).summary()
                    if "source/accuracy" in summary and "target/accuracy" not in summary:
                        # The target has no labels.
                        arguments += f" label={min(50, len(recommended.predictions()))}"
                    print(f"Next: {format_command('evaluate')} {arguments}", flush=True)
        if finished.count(True) < len(records):
            sys.exit(1)
