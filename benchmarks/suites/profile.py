"""Where the time of a training step goes, by kind of operation."""

import pathlib
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.suites import SUITES
from benchmarks.suites.step import StepSuite
from benchmarks.timing import Comparison, Times, in_turns

_BY_HAND, _TORCH, _ALL = "tf.function by hand", "PyTorch", "all operations"
_TRACED = ("dann", "dann, 20 steps an execution", _BY_HAND, _TORCH)
_KINDS = {"convolutions": "conv", "pooling": "pool", "matrix products": "matmul|mm$"}
_OPERATION = re.compile(r"[^:]+:(_?[A-Z]\w*)")  # name and type of a node of a graph


@SUITES.register("profile", summary="Where the time of a step goes, by kind of operation.")
class ProfileSuite:
    """Times steps of DANN and traces them, ours, by hand and in PyTorch, by their profilers.

    An operation lasts as long as the thread that starts it is busy with it. Helper threads shorten
    that, so start this suite on one core, for example by `taskset -c 0`. There both columns are
    the CPU time of all operations of a kind, if no other work interrupts them.

    The whole step is timed without a trace. What it takes beyond all of its operations is spent
    around them: in `fit`, in the input and in TensorFlow's executor. PyTorch counts such work as
    operations, so its sum of all is left out.

    Args:
        networks: See `benchmarks.suites.step.StepSuite`.
        rounds: Traces of each way.
        seconds: How long a way is timed at least in a round, without a trace.
    """

    def __init__(
        self, networks: Mapping[str, Mapping[str, Any]], rounds: int = 5, seconds: float = 1.0
    ):
        self.steps = StepSuite(networks, rounds=rounds, seconds=seconds)

    def measure(self) -> list[Comparison]:
        """Returns what a step spends in each kind of operation, by network and way."""
        return [compared for name in self.steps.tasks for compared in self._of(name)]

    def _of(self, name):
        suite, task = self.steps, self.steps.tasks[name]
        ways = {way: run for way, run in suite.ways(task).items() if way in _TRACED}
        if "torch._inductor" not in sys.modules:  # its profiler imports that, too late here
            ways.pop(_TORCH, None)
        whole = in_turns(ways, suite.rounds, suite.seconds, units=task.steps)
        for way, run in ways.items():  # a first trace also starts its profiler
            _by_kind(_trace(way, run))
        rounds = range(suite.rounds)
        traced = [{way: _by_kind(_trace(way, run)) for way, run in ways.items()} for _ in rounds]
        found = [Comparison(f"{name}, a whole step, not traced", whole, _BY_HAND)]
        for kind in traced[0][_BY_HAND]:
            spent = {
                way: np.array([turn[way][kind] for turn in traced]) / task.steps
                for way in ways
                if (way, kind) != (_TORCH, _ALL)
            }
            times = {way: Times(seconds, seconds) for way, seconds in spent.items()}
            found.append(Comparison(f"{name}, {kind}", times, _BY_HAND))
        return found


def _trace(way, run):
    return _traced_by_torch(run) if way == _TORCH else _traced(run)


def _by_kind(operations: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Sums the seconds of all operations, and of each of `_KINDS`."""
    found = list(operations)
    return {
        kind: sum(seconds for name, seconds in found if re.search(pattern, name.lower()))
        for kind, pattern in {_ALL: "", **_KINDS}.items()
    }


def _traced(run):
    """Type and seconds of each operation that TensorFlow runs."""
    space: Any = xplane_pb2.XSpace()  # pyright: ignore[reportAttributeAccessIssue]
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            run()
        for path in pathlib.Path(folder).rglob("*.xplane.pb"):
            space.MergeFromString(path.read_bytes())
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            named = _OPERATION.fullmatch(plane.event_metadata[event.metadata_id].name)
            if named:
                yield named[1], event.duration_ps / 1e12


def _traced_by_torch(run):
    """The same of PyTorch, whose operations call each other, so each without those it calls."""
    torch: Any = sys.modules["torch"]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        run()
    for operation in profiler.key_averages():
        yield operation.key, operation.self_cpu_time_total / 1e6
