"""Ranks the runs at the end of a sweep, as a callback of Hydra."""

import json
import os
import pathlib
import shutil
import sys
import uuid
from typing import Any

from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from dann.experiments.sweep import rank_sweep
from dann.training import RunDirectory


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
        """Writes the table and the figure into the sweep's directory, and prints the table."""
        directory = pathlib.Path(config.hydra.sweep.dir)
        records = sorted(_folder(directory).glob(f"{self.sweep}-*.json"))
        jobs = dict(json.loads(record.read_text()) for record in records)
        shutil.rmtree(_folder(directory), ignore_errors=True)
        finished = [RunDirectory(folder).is_finished() for folder in jobs]
        score = config.selection.rank_by
        if score is not None and len(jobs) > 1:
            overrides = {os.path.relpath(folder, directory): job for folder, job in jobs.items()}
            table = rank_sweep(directory, score, overrides)
            if table is not None:
                print(f"{table}\nWritten to {directory / 'sweep.csv'}", flush=True)
            elif any(finished):
                print(f"Not ranked: no run has selection/{score}", flush=True)
        if not all(finished):
            sys.exit(1)


def _folder(directory):
    return pathlib.Path(directory) / ".jobs"
