"""Whole runs of the main job."""

import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.commands import ROOT, run_python
from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, in_turns
from dann.checks import check_integer


@SUITES.register("run", summary="Whole runs of scripts/train.py, each in a new process.")
class RunSuite:
    """Measures runs of `scripts/train.py`, with all their threads.

    Args:
        runs: Overrides by the name of a run.
        before: Folder of another checkout, whose runs take turns with those of this one and are
            what they are compared with. Defaults to `None`: only this one, compared with the first
            of `runs`.
        rounds: See `benchmarks.timing.in_turns`.
    """

    def __init__(
        self,
        runs: Mapping[str, Sequence[str]],
        before: str | None = None,
        rounds: int = 3,
    ):
        self.runs = {name: list(overrides) for name, overrides in runs.items()}
        if not self.runs:
            raise ValueError("`runs` must hold at least one. Received: none")
        self.before = before
        if before is not None and not (pathlib.Path(before) / "scripts/train.py").is_file():
            raise ValueError(f"`before` must be the folder of a checkout. Received: {before}")
        self.rounds = check_integer("rounds", rounds, 1)

    def measure(self) -> list[Comparison]:
        """Returns what each run takes."""
        if self.before is None:
            ways = {f"dann, {name}": partial(_run, ROOT, its) for name, its in self.runs.items()}
            return [Comparison("runs", in_turns(ways, self.rounds, warm_up=False))]
        comparisons = []
        for name, overrides in self.runs.items():
            ways = {
                "before": partial(_run, pathlib.Path(self.before), overrides),
                "dann, now": partial(_run, ROOT, overrides),
            }
            comparisons.append(Comparison(name, in_turns(ways, self.rounds, warm_up=False)))
        return comparisons


def _run(checkout, overrides):
    with tempfile.TemporaryDirectory() as folder:
        script = [str(checkout / "scripts/train.py"), *overrides, f"hydra.run.dir={folder}/run"]
        run_python(script, checkout=checkout, folder=folder)
