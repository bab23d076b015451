import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).with_name("memory_growth.py")


def growth(what, kind, count):
    """MiB by which a process grows from a fifth of its way to its end."""
    command = [sys.executable, str(SCRIPT), what, kind, str(count)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(printed.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("what", "count", "share"), [("steps", 10_000, 1), ("models", 50, 1.25)])
def test_many_steps_or_models_leave_little_more_behind_than_plain_ones(what, count, share):
    """Keras and TensorFlow keep about 4 MiB of each model that was trained."""
    assert growth(what, "dann", count) < share * growth(what, "keras", count) + 2
