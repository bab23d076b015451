"""Ranks the runs at the end of a sweep, as a callback of Hydra."""

import os
import pathlib
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf


class Ranking(Callback):
    """Ranks the runs of a sweep when it has ended; see `dann.experiments.sweep.rank_sweep`."""

    def __init__(self) -> None:
        self.jobs = {}

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Records the arguments of a job by its folder, which is deleted if the job is refused."""
        # The unresolved text, because it may refer to keys that this config lacks.
        arguments: Any = OmegaConf.to_container(config.hydra.overrides.task)
        self.jobs[config.hydra.runtime.output_dir] = arguments

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes the table and the figure into the sweep's directory, and prints the table."""
        directory = pathlib.Path(config.hydra.sweep.dir)
        score = config.selection.rank_by
        if score is None or len(self.jobs) < 2:
            return
        from dann.experiments.sweep import rank_sweep

        overrides = {os.path.relpath(job, directory): list(a) for job, a in self.jobs.items()}
        table = rank_sweep(directory, score, overrides)
        if table is not None:
            print(f"{table}\nWritten to {directory / 'sweep.csv'}")
