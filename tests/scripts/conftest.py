"""Fixtures that run a script in its own process, like a user, or faster in this process."""

import contextlib
import gc
import io
import os
import pathlib
import runpy
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from hydra._internal.hydra import Hydra

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="session")
def begin(cache):
    """Starts a script in its own process, with the environment of a user's shell."""

    def run(script, arguments, folder, **environment):
        environment = {**os.environ, "DANN_CACHE_DIR": str(cache), **environment}
        environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, str(SCRIPTS / script), *arguments]
        return subprocess.Popen(command, cwd=folder, env=environment, **settings)

    return run


@pytest.fixture(scope="session")
def run_here(cache):
    """Runs a script in this process, in which TensorFlow is already imported.

    Unless a test requests them, no figures are drawn, which takes a third of a short run.
    """

    def run(script, arguments, folder, output="", draws=False):
        stdout, stderr = io.StringIO() if output == "" else output, io.StringIO()
        status, environment = 0, {"DANN_CACHE_DIR": str(cache)}
        with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ, environment):
            # When Hydra configures logging, it closes the stream of absl-py, which is pytest's.
            command = [str(SCRIPTS / script), *arguments, "hydra/hydra_logging=none"]
            patch.syspath_prepend(str(SCRIPTS))
            patch.setattr(sys, "argv", command)
            patch.chdir(folder)
            # Both take a second: Keras collects garbage, and Hydra composes all configs once more.
            patch.setattr(gc, "collect", lambda *_: 0)
            patch.setattr(Hydra, "get_mode", lambda *_, **__: None)
            if not draws:
                patch.setattr("dann.training.run_figures.draw", lambda *_: None)
            with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
                try:
                    runpy.run_path(str(SCRIPTS / script), run_name="__main__")
                except SystemExit as stop:
                    status = stop.code
        printed = stdout.getvalue() if isinstance(stdout, io.StringIO) else ""
        return subprocess.CompletedProcess(command, status, printed, stderr.getvalue())

    return run


@pytest.fixture(scope="session")
def run_well(run_here):
    """Runs a script in this process, checks that it succeeds, and returns its output."""

    def run(*arguments, **options):
        result = run_here(*arguments, **options)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


@pytest.fixture(scope="session")
def with_features():
    """Writes `a.npz` and `b.npz`, 100 examples of 5 features each, and returns their folder."""

    def write(folder, target_count=100):
        rng = np.random.default_rng(0)
        for name, count in {"a": 100, "b": target_count}.items():
            np.savez(folder / f"{name}.npz", x=rng.normal(size=(count, 5)), y=np.arange(count) % 4)
        return folder

    return write


@pytest.fixture(scope="session")
def prepared_digits(cache):
    """The default data, prepared in advance because the first preparation prints lines."""
    from dann.data import digits_to_photos

    return digits_to_photos(str(cache))


@pytest.fixture(scope="session")
def check_refused():
    """Checks that a script printed one line of error and, if `silent`, nothing else."""

    def check(result, *messages, silent=True):
        assert result.returncode == 1
        assert result.stdout == "" or not silent
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert all(message in result.stderr for message in messages), result.stderr

    return check
