import os
import subprocess
import sys

import pytest

from dann.training.directory_claim import DirectoryInUseError, claim, claiming

HOLD = """
import sys
from dann.training.directory_claim import claim
with claim(sys.argv[1]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path):
    """A directory that another process has claimed, and that process."""
    environment = {**os.environ, "DANN_LAZY_IMPORT": "1"}
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"claimed\n"
    yield tmp_path / "run", other
    other.kill()
    other.communicate()


def test_a_directory_in_use_is_refused_by_the_name_of_its_process_until_that_is_killed(held):
    directory, other = held
    for _ in range(2):  # a refusal changes nothing
        with pytest.raises(DirectoryInUseError, match=f"which process {other.pid} on .* is writ"):
            claim(directory).__enter__()
    other.kill()
    other.communicate()
    with claim(directory):
        assert (directory / "run.lock").read_text().startswith(f"process {os.getpid()} on ")
    assert list(directory.iterdir()) == []


def test_a_process_may_claim_its_directory_again(tmp_path):
    class Writer:
        directory = tmp_path

        @claiming
        def write(self):
            return "written"

    with claim(tmp_path):
        assert Writer().write() == "written"
        assert (tmp_path / "run.lock").exists()


def test_an_error_lets_go_of_the_directory(tmp_path):
    def fail():
        with claim(tmp_path):
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(OSError, match="run"):
        claim(tmp_path / "run").__enter__()
    assert (tmp_path / "run").read_text() == "mine"


def test_a_command_in_a_directory_in_use_changes_nothing_in_it(held, run_here, check_refused):
    directory, other = held
    before = sorted(path.name for path in directory.iterdir())
    for arguments in (["hydra.run.dir=run"], ["-m", "seed=0,1", "hydra.sweep.dir=run"]):
        result = run_here("train.py", arguments, directory.parent)
        check_refused(result, f"Received: run, which process {other.pid} on ")
        assert sorted(path.name for path in directory.iterdir()) == before
