"""Where the time of a training step goes, by kind of operation."""

import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.suites import SUITES
from benchmarks.suites.step import StepSuite
from benchmarks.timing import Comparison, Times
from dann.checks import check_integer

_KINDS = {"convolutions": "conv", "pooling": "pool", "matrix products": "matmul|mm$"}
_OPERATION = re.compile(r"[^:]+:(_?[A-Z]\w*)")  # name and type of a node of a graph


@SUITES.register("profile", summary="Where the time of a step goes, by kind of operation.")
class ProfileSuite:
    """Traces steps of `dann.DANN` in `fit`, the same by hand and in PyTorch, by their profilers.

    An operation lasts as long as the thread that starts it is busy with it. Helper threads shorten
    that, so start this suite on one core, for example by `taskset -c 0`. There both columns are
    the CPU time that a step spends in operations of that kind, if no other work interrupts it.

    Args:
        networks: See `benchmarks.suites.step.StepSuite`.
        rounds: Traces of each way.
    """

    def __init__(self, networks: Mapping[str, Mapping[str, Any]], rounds: int = 5):
        self.steps = StepSuite(networks)
        self.rounds = check_integer("rounds", rounds, 1)

    def measure(self) -> list[Comparison]:
        """Returns what a step spends in each kind of operation, by network and way."""
        return [compared for name in self.steps.tasks for compared in self._of(name)]

    def _of(self, name):
        task = self.steps.tasks[name]
        steps: dict[str, Callable[[], Any]] = self.steps.ways(task)
        traces = {"dann": _traced, "tf.function by hand": _traced}
        if "torch._inductor" in sys.modules:  # its profiler cannot import that after TensorFlow
            traces["PyTorch"] = _traced_by_torch
        traces = {way: traced for way, traced in traces.items() if way in steps}
        for way, traced in traces.items():  # a first trace also starts its profiler
            _by_kind(traced(steps[way]))
        kinds = ["all operations", *_KINDS]
        spent = {way: np.empty((self.rounds, len(kinds))) for way in traces}
        for turn in range(self.rounds):
            for way, traced in traces.items():
                spent[way][turn] = _by_kind(traced(steps[way])) / task.steps
        return [
            Comparison(
                f"{name}, {kind}",
                {
                    way: Times(seconds[:, number], seconds[:, number])
                    for way, seconds in spent.items()
                },
                "tf.function by hand",
            )
            for number, kind in enumerate(kinds)
        ]


def _by_kind(operations: Iterable[tuple[str, float]]) -> np.ndarray:
    """Sums the seconds of all operations, and of each of `_KINDS`."""
    found = list(operations)
    of_kinds = [
        sum(seconds for name, seconds in found if re.search(kind, name.lower()))
        for kind in _KINDS.values()
    ]
    return np.array([sum(seconds for _, seconds in found), *of_kinds])


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
