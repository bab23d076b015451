"""One way to time rivals: they take turns, so that all suffer alike from other work."""

import dataclasses
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds that one way took in each round.

    Args:
        cpu: CPU time of all threads, and of processes that have ended meanwhile, `(rounds,)`.
        wall: Time that passed, `(rounds,)`.
    """

    cpu: np.ndarray
    wall: np.ndarray


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Ways of doing the same thing, and what each took.

    Args:
        task: What all of them do.
        times: Times by the name of the way. All are compared with the first.
        notes: What else there is to say of a way, in a few words, by its name.
    """

    task: str
    times: Mapping[str, Times]
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def ratios(self, name: str) -> np.ndarray:
        """Returns the CPU time of a way over that of the first, round by round."""
        return self.times[name].cpu / next(iter(self.times.values())).cpu


def in_turns(
    ways: Mapping[str, Callable[[], Any]],
    rounds: int,
    seconds: float = 0.0,
    *,
    begin: Callable[[Any], Callable[[], Any]] = lambda way: way,
    units: int = 1,
) -> dict[str, Times]:
    """Times several ways: in each round every way has one turn, in the same order.

    Each way is called once before the first round.

    Args:
        ways: What to call, by name.
        rounds: Number of rounds, at least 1.
        seconds: How long a turn lasts at least; a way is called once or as often as that takes. At
            least 0.
        begin: Called on a way before each of its turns; what it returns is timed. Defaults to the
            way itself.
        units: How many units one call makes, such as images; at least 1. Times are for one unit.
    """
    for way in ways.values():
        begin(way)()
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            turns[name].append(_turn(begin(way), seconds))
    measured = {name: np.array(of_way).T / units for name, of_way in turns.items()}
    return {name: Times(cpu=cpu, wall=wall) for name, (cpu, wall) in measured.items()}


def _turn(call, seconds):
    count, wall, cpu = 0, time.perf_counter(), _cpu_seconds()
    while count == 0 or time.perf_counter() - wall < seconds:
        call()
        count += 1
    return (_cpu_seconds() - cpu) / count, (time.perf_counter() - wall) / count


def _cpu_seconds():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def table(comparisons: Sequence[Comparison]) -> str:
    """Formats comparisons, a line a way.

    CPU and wall time are the minimum over all rounds, which other work disturbs least. `times` is
    the median over the rounds of the CPU time over that of the first way, with its range.
    """
    lines = []
    for comparison in comparisons:
        lines.append(f"{comparison.task:<44}{'CPU ms':>11}{'wall ms':>11}{'times (range)':>24}")
        for name, times in comparison.times.items():
            ratios = comparison.ratios(name)
            spread = f"{np.median(ratios):.2f} ({ratios.min():.2f}-{ratios.max():.2f})"
            cpu, wall = (1000 * seconds.min() for seconds in (times.cpu, times.wall))
            line = f"  {name:<42}{cpu:>11.3f}{wall:>11.3f}{spread:>24}"
            lines.append(f"{line}  {comparison.notes.get(name, '')}".rstrip())
    return "\n".join(lines)
