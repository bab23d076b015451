"""Runs that are killed by SIGKILL and go on end with the bits of those that were not."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[1] / "support" / "killed_runs.py"
KINDS = (
    *("dann", "cdan", "mcd", "wdgrl", "everything", "sdat", "mdan", "dirt_t", "bop"),
    "mixed_float16",
)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")


def killed(folder, kind, kills, backend):
    """What `killed_runs.py` tells of a run that is killed so often."""
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, str(PROGRAM), str(folder), kind, str(kills)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.tensorflow
def test_a_run_killed_in_a_checkpoint_and_in_a_step_ends_with_the_bits_of_one_that_was_not(
    tmp_path,
):
    found = killed(tmp_path, "everything", 2, "tensorflow")
    assert {moment for moment, _ in found["killed"]} == {"checkpoint", "step"}
    assert found["differences"] == []


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_kills_change_no_bit(kind, backend, tmp_path):
    found = killed(tmp_path, kind, 20, backend)
    assert len(found["killed"]) == 20
    assert len({moment for moment, _ in found["killed"]}) == 6  # from the data to the figures
    assert found["differences"] == []
