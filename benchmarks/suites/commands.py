"""Complete runs of `scripts/train.py` and commands that end before training, in new processes."""

import os
import pathlib
import subprocess
import sys
import tempfile
from functools import partial
from typing import Any

from benchmarks.timing import Comparison, time_in_turns

_ROOT = pathlib.Path(__file__).parents[2]
_INVALID_OVERRIDES = "method=unknown", "trainer.stps=1", "optimizer.momentum=-1"
_BENCHMARK_ONLY = "OMP_WAIT_POLICY", "TF_USE_LEGACY_KERAS"


def measure_runs(settings: Any) -> list[Comparison]:
    """Measures runs of `scripts/train.py` and its short commands, each in a new process.

    Args:
        settings: `rounds`, and `before`: the folder of another checkout to compare with, or `None`.

    Raises:
        RuntimeError: If a command ends with an unexpected exit status.
    """
    checkouts = {"dann, now": _ROOT}
    if settings.before is not None:
        checkouts = {"before": pathlib.Path(settings.before), **checkouts}
    tasks = {}
    for name, overrides in {"default run": [], "debug=fast": ["debug=fast"]}.items():
        tasks[name] = {
            version: partial(_train, *overrides, checkout=checkout)
            for version, checkout in checkouts.items()
        }
    startup = {"train.py --help": partial(_train, "--help")}
    for package in ("keras", "dann"):
        startup[f"import {package}"] = partial(_python, "-c", f"import {package}")
    for override in _INVALID_OVERRIDES:
        startup[f"train.py {override}"] = partial(_train, override, status=1)
    tasks["startup"] = startup
    rounds = settings.rounds
    return [Comparison(name, time_in_turns(runs, rounds)) for name, runs in tasks.items()]


def _train(*overrides, checkout=_ROOT, status=0):
    with tempfile.TemporaryDirectory() as folder:
        script = f"{checkout}/scripts/train.py"
        _python(script, *overrides, f"hydra.run.dir={folder}/run", checkout=checkout, status=status)


def _python(*arguments, checkout=_ROOT, status=0):
    """Runs Python in the environment of a user, with the package of a checkout."""
    environment = {key: value for key, value in os.environ.items() if key not in _BENCHMARK_ONLY}
    environment["PYTHONPATH"] = str(checkout)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != status:
        message = f"{done.returncode} from {command}, which printed: {done.stderr[-500:]}"
        raise RuntimeError(f"Expected exit status {status}. Received: {message}")
