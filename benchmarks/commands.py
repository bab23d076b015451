"""Commands in new processes, as a user would start them."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parents[1]
_OF_BENCHMARKS = "OMP_WAIT_POLICY", "TF_USE_LEGACY_KERAS"


def run_python(
    arguments: Sequence[str], status: int = 0, checkout: pathlib.Path = ROOT, folder: str = "."
) -> None:
    """Runs Python on arguments, with the package of a checkout, and waits for its end.

    Args:
        arguments: What follows `python`.
        status: The exit status that is expected.
        checkout: Folder of the repository.
        folder: Where the process works.

    Raises:
        RuntimeError: If it ends with another status.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _OF_BENCHMARKS}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )
    if done.returncode != status:
        raise RuntimeError(
            f"Expected exit status {status}. Received: {done.returncode} of {list(arguments)}, "
            f"which said: {done.stderr[-500:]}"
        )
