"""Commands that end before a training: imports, help, and values that are refused."""

from collections.abc import Sequence
from functools import partial

from benchmarks.commands import ROOT, run_python
from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, in_turns
from dann.checks import check_integer


@SUITES.register("startup", summary="Imports, help and refused values, each in a new process.")
class StartupSuite:
    """Measures new processes, with all their threads, beside the import of what they stand on.

    Args:
        refused: Overrides of `scripts/train.py`, each of which must be refused.
        rounds: See `benchmarks.timing.in_turns`.
    """

    def __init__(
        self,
        refused: Sequence[str] = (
            "method.strength=-1",
            "optimizer.momentum=-1",
            "method=unknown",
            "trainer.stps=1",
        ),
        rounds: int = 5,
    ):
        self.refused = list(refused)
        self.rounds = check_integer("rounds", rounds, 1)

    def measure(self) -> list[Comparison]:
        """Returns what each command takes, beside an import."""
        ways = {"import hydra": _import("hydra"), "dann, train.py --help": _script("--help")}
        ways |= {f"dann, train.py {one}": _script(one, status=1) for one in self.refused}
        imports = {"import keras": _import("keras"), "dann": _import("dann")}
        return [
            Comparison("commands", in_turns(ways, self.rounds)),
            Comparison("import dann", in_turns(imports, self.rounds)),
        ]


def _script(argument, status=0):
    return partial(run_python, [str(ROOT / "scripts/train.py"), argument], status)


def _import(package):
    return partial(run_python, ["-c", f"import {package}"])
