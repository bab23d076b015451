"""How many files of the package a reader of the default run must visit."""

import pathlib
import re
import subprocess
import sys

import pytest

TRACE = pathlib.Path(__file__).parents[1] / "support" / "trace_run.py"


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_default_run_enters_few_files_and_seldom_goes_from_one_to_another():
    told = subprocess.run([sys.executable, TRACE], capture_output=True, text=True, check=True)
    files, changes = re.findall(r"^(\d+) files, (\d+) changes$", told.stdout, re.MULTILINE)[0]
    assert int(files) <= 60
    assert int(changes) <= 800
