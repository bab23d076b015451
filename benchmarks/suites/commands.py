"""Whole runs of the main job, and commands that end before a training, in new processes."""

import os
import pathlib
import subprocess
import sys
import tempfile
from functools import partial
from typing import Any

from benchmarks.timing import Comparison, in_turns

_ROOT = pathlib.Path(__file__).parents[2]
_REFUSED = "method=unknown", "trainer.stps=1", "optimizer.momentum=-1"
_OF_BENCHMARKS = "OMP_WAIT_POLICY", "TF_USE_LEGACY_KERAS"


def whole_runs(settings: Any) -> list[Comparison]:
    """Measures runs of `scripts/train.py` and its short commands, each in a new process.

    Args:
        settings: `rounds`, and `before`, the folder of another checkout, which takes turns with
            this one, or `None`.

    Raises:
        RuntimeError: If a command ends with another exit status than it should.
    """
    checkouts = {"dann, now": _ROOT}
    if settings.before is not None:
        checkouts = {"before": pathlib.Path(settings.before), **checkouts}
    tasks = {}
    for name, overrides in {"default run": [], "debug=fast": ["debug=fast"]}.items():
        tasks[name] = {
            way: partial(_train, *overrides, checkout=checkout)
            for way, checkout in checkouts.items()
        }
    short = {f"import {one}": partial(_python, "-c", f"import {one}") for one in ("keras", "dann")}
    short["train.py --help"] = partial(_train, "--help")
    short |= {f"train.py {one}": partial(_train, one, status=1) for one in _REFUSED}
    tasks["startup"] = short
    return [Comparison(name, in_turns(ways, settings.rounds)) for name, ways in tasks.items()]


def _train(*overrides, checkout=_ROOT, status=0):
    with tempfile.TemporaryDirectory() as folder:
        script = f"{checkout}/scripts/train.py"
        _python(script, *overrides, f"hydra.run.dir={folder}/run", checkout=checkout, status=status)


def _python(*arguments, checkout=_ROOT, status=0):
    """Runs Python as a user would start it, with the package of a checkout."""
    environment = {key: value for key, value in os.environ.items() if key not in _OF_BENCHMARKS}
    environment["PYTHONPATH"] = str(checkout)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != status:
        said = f"{done.returncode} of {command}, which said: {done.stderr[-500:]}"
        raise RuntimeError(f"Expected exit status {status}. Received: {said}")
