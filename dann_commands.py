"""The console commands `dann-train`, `dann-evaluate`, `dann-diagnose` and `dann-export`.

Each runs the script of its name. The module is no part of the package, because a script must set
what `environment.py` sets before `dann` is imported.
"""

import functools
import pathlib
import runpy
import sys

HERE = pathlib.Path(__file__).parent


def run_script(name: str) -> None:
    """Runs a script of a clone, or of the installed package, as `python scripts/<name>.py` does."""
    installed = HERE / "dann" / "scripts"
    folder = installed if installed.is_dir() else HERE / "scripts"
    sys.path.insert(0, str(folder))
    sys.argv[0] = str(folder / f"{name}.py")
    runpy.run_path(sys.argv[0], run_name="__main__")


train = functools.partial(run_script, "train")
evaluate = functools.partial(run_script, "evaluate")
diagnose = functools.partial(run_script, "diagnose")
export = functools.partial(run_script, "export")
