"""A run that is killed by SIGKILL at five moments ends with the bits of one that was not."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("killed_runs.py")
CASES = [("tensorflow", kind) for kind in ("dann", "everything", "mdan", "wdgrl", "bop")]
CASES += [("tensorflow", "mixed_float16"), ("jax", "dann"), ("jax", "everything")]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process")
@pytest.mark.parametrize(("backend", "kind"), CASES)
def test_five_kills_change_no_bit(kind, backend, tmp_path):
    pytest.importorskip(backend)
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, str(PROGRAM), str(tmp_path), kind]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == []
