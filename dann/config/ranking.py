"""Ranks the runs at the end of a sweep, as a callback of Hydra."""

import json
import os
import pathlib
import shutil
import sys
import uuid
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from dann.training.files_on_disk import atomic_write


class Ranking(Callback):
    """Ranks the runs of a sweep when it has ended; see `dann.experiments.sweep.rank_sweep`.

    A launcher may run the jobs in other processes or on other machines, each with a copy of this
    object. So each job leaves a record in the sweep's directory, which is read at the end. If a job
    has failed, the exit status is 1.
    """

    def __init__(self) -> None:
        self.sweep = uuid.uuid4().hex  # the same in all copies

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Records the arguments of a job, whose folder is deleted if the job is refused."""
        self._record(config.hydra, failed=True)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Records whether the job has failed: it returns its error, or nothing."""
        completed = job_return.status == JobStatus.COMPLETED and job_return.return_value is None
        self._record(config.hydra, failed=not completed)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes the table and the figure into the sweep's directory, and prints the table."""
        directory = pathlib.Path(config.hydra.sweep.dir)
        jobs = self._records(directory)
        score = config.selection.rank_by
        if score is not None and len(jobs) > 1:
            from dann.experiments.sweep import rank_sweep

            overrides = {
                os.path.relpath(job["folder"], directory): job["arguments"] for job in jobs
            }
            table = rank_sweep(directory, score, overrides)
            if table is not None:
                print(f"{table}\nWritten to {directory / 'sweep.csv'}", flush=True)
            elif not all(job["failed"] for job in jobs):
                why = ", which needs several seeds of a setting" if score == "agreement" else ""
                print(f"Not ranked: no run has selection/{score}{why}", flush=True)
        if any(job["failed"] for job in jobs):
            sys.exit(1)

    def _record(self, hydra, failed):
        if hydra.mode != RunMode.MULTIRUN:
            return
        record = {
            "folder": hydra.runtime.output_dir,
            # The unresolved text, because it may refer to keys that this config lacks.
            "arguments": OmegaConf.to_container(hydra.overrides.task),
            "failed": failed,
        }
        folder = _folder(pathlib.Path(hydra.sweep.dir))
        with atomic_write(folder / f"{self.sweep}-{hydra.job.num:06d}.json") as path:
            path.write_text(json.dumps(record))

    def _records(self, directory):
        """Returns the records of this sweep in the order of its jobs, and deletes them."""
        folder = _folder(directory)
        found = [json.loads(p.read_text()) for p in sorted(folder.glob(f"{self.sweep}-*.json"))]
        shutil.rmtree(folder, ignore_errors=True)
        return found


def _folder(directory):
    return directory / ".jobs"
