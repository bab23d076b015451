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
def test_ten_thousand_steps_need_no_more_memory_than_the_first_ones():
    assert growth("steps", "dann", 10_000) < growth("steps", "keras", 10_000) + 2


@pytest.mark.slow
def test_fifty_models_leave_little_more_behind_than_fifty_plain_ones():
    """Keras and TensorFlow keep about 4 MiB of each model that was trained."""
    assert growth("models", "dann", 50) < 1.25 * growth("models", "keras", 50)
