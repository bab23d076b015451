"""Timing of several programs in alternation, so that background load affects all alike."""

import dataclasses
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds per call of one program, by round.

    Args:
        cpu: CPU time of all threads and of finished child processes, `(rounds,)`.
        wall: Elapsed time, `(rounds,)`.
    """

    cpu: np.ndarray
    wall: np.ndarray


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Times of several programs that do the same task.

    Args:
        task: Name of the task.
        times: Times by program name. The first program is the reference.
        notes: Short remarks for the table, by program name.
    """

    task: str
    times: Mapping[str, Times]
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def ratios(self, name: str) -> np.ndarray:
        """Returns CPU time divided by the CPU time of the first program, `(rounds,)`."""
        return self.times[name].cpu / next(iter(self.times.values())).cpu


def time_in_turns(
    programs: Mapping[str, Callable[[], Any]],
    rounds: int,
    seconds: float = 0.0,
    *,
    prepare: Callable[[Any], Callable[[], Any]] = lambda program: program,
    units: int = 1,
) -> dict[str, Times]:
    """Times several programs. In each round every program has one turn, in the same order.

    Each program is called once before the first round.

    Args:
        programs: Functions to call, by name.
        rounds: Number of rounds, at least 1.
        seconds: Minimum length of a turn, at least 0. A program is called at least once per turn.
        prepare: Called on a program before each turn, outside the timed part; returns the function
            to time. Defaults to the program itself.
        units: Number of units that one call processes, such as images, at least 1. Times are per
            unit.
    """
    for program in programs.values():
        prepare(program)()
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            turns[name].append(_time_turn(prepare(program), seconds))
    seconds_per_unit = {name: np.array(rows).T / units for name, rows in turns.items()}
    return {name: Times(cpu=cpu, wall=wall) for name, (cpu, wall) in seconds_per_unit.items()}


def _time_turn(call, seconds):
    count, wall, cpu = 0, time.perf_counter(), _cpu_seconds()
    while count == 0 or time.perf_counter() - wall < seconds:
        call()
        count += 1
    return (_cpu_seconds() - cpu) / count, (time.perf_counter() - wall) / count


def _cpu_seconds():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def format_table(comparisons: Sequence[Comparison]) -> str:
    """Formats comparisons with one line per program.

    CPU and wall time are the minimum over all rounds, which background load affects least. `ratio`
    is the median over the rounds of `Comparison.ratios`, with the range.
    """
    lines = []
    for comparison in comparisons:
        lines.append(f"{comparison.task:<44}{'CPU ms':>11}{'wall ms':>11}{'ratio (range)':>24}")
        for name, times in comparison.times.items():
            ratios = comparison.ratios(name)
            spread = f"{np.median(ratios):.2f} ({ratios.min():.2f}-{ratios.max():.2f})"
            cpu, wall = (1000 * seconds.min() for seconds in (times.cpu, times.wall))
            line = f"  {name:<42}{cpu:>11.3f}{wall:>11.3f}{spread:>24}"
            lines.append(f"{line}  {comparison.notes.get(name, '')}".rstrip())
    return "\n".join(lines)
