import pathlib
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf


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
