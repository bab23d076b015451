import os
import subprocess
import sys

import pytest

from dann.standard_error import held_back, is_no_information

INFORMATION = "I0000 00:00:1795439056.195333   20586 port.cc:153] oneDNN custom operations are on."
PROBLEM = "E0000 00:00:1795439059.544797   20586 cuda_platform.cc:52] failed call to cuInit"


def write(*lines):
    os.write(2, "".join(f"{line}\n" for line in lines).encode())


def test_what_is_written_is_hidden_and_what_comes_after_is_not(capfd):
    with held_back():
        write(INFORMATION, PROBLEM)
    write("after")
    assert capfd.readouterr().err == "after\n"


def test_information_alone_is_hidden_where_problems_are_to_be_shown(capfd):
    with held_back(is_no_information):
        write("WARNING: All log messages before absl::InitializeLog() is called", INFORMATION)
        write(PROBLEM, "DeprecationWarning: old")
    assert capfd.readouterr().err == f"{PROBLEM}\nDeprecationWarning: old\n"


def test_after_an_error_everything_is_shown(capfd):
    def fail():
        with held_back(is_no_information):
            write(INFORMATION)
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert capfd.readouterr().err == f"{INFORMATION}\n"


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "closed", ["", pytest.param("import os; os.close(2); ", marks=pytest.mark.slow)]
)
def test_importing_the_package_alone_writes_nothing_of_tensorflows(closed):
    command = [sys.executable, "-c", f"{closed}import dann; print(dann.DANN.__name__)"]
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    for key in ("TF_CPP_MIN_LOG_LEVEL", "DANN_LAZY_IMPORT"):  # of tests and of scripts run by them
        environment.pop(key, None)
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (found.stdout, found.stderr, found.returncode) == ("DANN\n", "", 0)
