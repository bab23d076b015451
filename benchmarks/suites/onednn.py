"""Training steps with the kernels of oneDNN and without them."""

from benchmarks import record
from benchmarks.suites import SUITES
from benchmarks.timing import Comparison
from dann.checks import check_integer

_WAYS = {"dann, oneDNN off": "0", "dann, oneDNN on": "1"}


@SUITES.register("onednn", summary="Training steps with oneDNN's kernels and without them.")
class OneDNNSuite:
    """Measures `dann.DANN` on the networks of the suite `step`, once with oneDNN and once without.

    TensorFlow decides as it is imported, so each way has processes of its own, which take turns.

    Args:
        rounds: Processes of each way.
    """

    def __init__(self, rounds: int = 3):
        self.rounds = check_integer("rounds", rounds, 1)

    def measure(self) -> list[Comparison]:
        """Returns what a step takes each way, by network."""
        alone = ["step.only=[dann]", "step.rounds=1"]
        turns = [
            {
                way: record.in_processes("step", 1, alone, {"TF_ENABLE_ONEDNN_OPTS": flag})
                for way, flag in _WAYS.items()
            }
            for _ in range(self.rounds)
        ]
        ways = {way: record.joined([turn[way] for turn in turns]) for way in _WAYS}
        return [
            Comparison(
                same[0].task, dict(zip(ways, (one.times["dann"] for one in same), strict=True))
            )
            for same in zip(*ways.values(), strict=True)
        ]
