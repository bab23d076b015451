"""Console commands: `dann-train`, `dann-evaluate`, `dann-diagnose` and `dann-export`.

Each command runs the script of the same name. This module is outside the package, because a script
sets environment variables before it imports `dann`.
"""

import functools
import pathlib
import runpy
import sys

HERE = pathlib.Path(__file__).parent


def run_script(name: str) -> None:
    """Runs a script of a clone or of the installed package, like `python scripts/<name>.py`."""
    installed = HERE / "dann" / "scripts"
    folder = installed if installed.is_dir() else HERE / "scripts"
    sys.path.insert(0, str(folder))
    sys.argv[0] = str(folder / f"{name}.py")
    runpy.run_path(sys.argv[0], run_name="__main__")


train = functools.partial(run_script, "train")
evaluate = functools.partial(run_script, "evaluate")
diagnose = functools.partial(run_script, "diagnose")
export = functools.partial(run_script, "export")
