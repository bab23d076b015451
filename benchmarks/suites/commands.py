"""Whole runs of the main job, and commands that end before a training."""

import pathlib
import tempfile
from functools import partial
from typing import Any

from benchmarks.commands import ROOT, run_python
from benchmarks.timing import Comparison, in_turns

_REFUSED = "method=unknown", "trainer.stps=1", "optimizer.momentum=-1"


def whole_runs(settings: Any) -> list[Comparison]:
    """Measures runs of `scripts/train.py` and its short commands, each in a new process.

    Args:
        settings: `rounds`, and `before`, the folder of another checkout, which takes turns with
            this one, or `None`.
    """
    comparisons = []
    for name, overrides in {"default run": [], "debug=fast": ["debug=fast"]}.items():
        ways = {"dann, now": partial(_run, ROOT, overrides)}
        if settings.before is not None:
            before = partial(_run, pathlib.Path(settings.before), overrides)
            ways = {"before": before, **ways}
        times = in_turns(ways, settings.rounds, warm_up=False)
        comparisons.append(Comparison(name, times))
    short = {"import keras": partial(run_python, ["-c", "import keras"])}
    short["import dann"] = partial(run_python, ["-c", "import dann"])
    short["train.py --help"] = partial(_script, "--help", 0)
    short |= {f"train.py {one}": partial(_script, one, 1) for one in _REFUSED}
    return [*comparisons, Comparison("startup", in_turns(short, settings.rounds))]


def _run(checkout, overrides):
    with tempfile.TemporaryDirectory() as folder:
        script = [str(checkout / "scripts/train.py"), *overrides, f"hydra.run.dir={folder}/run"]
        run_python(script, checkout=checkout, folder=folder)


def _script(argument, status):
    with tempfile.TemporaryDirectory() as folder:
        run_python([str(ROOT / "scripts/train.py"), argument], status, folder=folder)
