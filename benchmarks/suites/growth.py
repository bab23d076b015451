"""How the time of a training grows with what it trains on."""

import json
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from functools import partial

import keras
import numpy as np

from benchmarks.bounds import work_of_step
from benchmarks.commands import ROOT, run_python
from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, Times, in_turns
from dann.adaptation import DANN
from dann.checks import check_integer, check_integers
from dann.data import pair
from dann.networks import cnn_backbone

_SHAPE, _CLASSES = (16, 16, 3), 10


@SUITES.register("growth", summary="How the time grows with batch, data, network and devices.")
class GrowthSuite:
    """Measures the power of each size with which the CPU time of a training grows.

    The power is the slope of a line through the logarithms of sizes and CPU times. 1 is work
    in proportion to the size, less means that a part of the work is shared.

    Args:
        batch_sizes: Examples of each domain in a step; measured is a step.
        examples: Examples of each domain; measured is an epoch, the start of `fit` included.
        filters: Channels of the first of two convolutions; measured is a step, by its floating-
            point operations.
        devices: Numbers of logical devices of TensorFlow that share a batch of 32 examples of each
            domain for each; measured is a step of `scripts/train.py`, in processes of their own.
        steps: Steps of a turn.
        rounds: See `benchmarks.timing.in_turns`.
    """

    def __init__(
        self,
        batch_sizes: Sequence[int] = (64, 128, 256, 512),
        examples: Sequence[int] = (4000, 8000, 16000, 32000),
        filters: Sequence[int] = (16, 32, 64),
        devices: Sequence[int] = (1, 2, 4),
        steps: int = 30,
        rounds: int = 3,
    ):
        self.batch_sizes = _sizes("batch_sizes", batch_sizes)
        self.examples = _sizes("examples", examples)
        self.filters = _sizes("filters", filters)
        self.devices = _sizes("devices", devices)
        self.steps = check_integer("steps", steps, 1)
        self.rounds = check_integer("rounds", rounds, 1)

    def measure(self) -> list[Comparison]:
        """Returns what each size takes."""
        return [
            self._by_size("batch", self.batch_sizes, self._step_of_batch, units=self.steps),
            self._by_size("data", self.examples, self._epoch),
            self._network(),
            self._devices(),
        ]

    def _by_size(self, what, sizes, way_of, units=1):
        ways = {f"{size:,}": way_of(size) for size in sizes}
        return Comparison(what, in_turns(ways, self.rounds, units=units), sizes=sizes)

    def _step_of_batch(self, size):
        return _training(_network(16), self.steps * size, size)

    def _epoch(self, count):
        return _training(_network(16), count, 64)

    def _network(self):
        networks = {f"{count} filters": _network(count) for count in self.filters}
        ways = {name: _training(one, 64 * self.steps, 64) for name, one in networks.items()}
        operations = [work_of_step([(network, 128)])[0] for network in networks.values()]
        times = in_turns(ways, self.rounds, units=self.steps)
        return Comparison("network", times, sizes=operations)

    def _devices(self):
        """The difference of the least of long and of short runs, so that no start counts."""
        times = {}
        for count in self.devices:
            short, long = (
                np.min([_seconds_of_run(count, steps) for _ in range(self.rounds)], axis=0)
                for steps in (100, 400)
            )
            cpu, wall = (long - short)[:, None] / 300
            times[f"{count}"] = Times(cpu=cpu, wall=wall)
        return Comparison("devices", times, sizes=self.devices)


def _network(filters):
    return cnn_backbone(_SHAPE, filters=(filters, 2 * filters), units=100, input_range=(0, 1))


def _training(backbone: keras.Model, count: int, batch_size: int) -> Callable[[], object]:
    """Returns a function that trains for one epoch of so many examples of each domain."""
    rng = np.random.default_rng(0)
    source, target = (rng.uniform(size=(count, *_SHAPE)).astype("float32") for _ in range(2))
    model = DANN(backbone, num_classes=_CLASSES)
    model.compile(keras.optimizers.SGD(0.01), metrics=["accuracy"])
    labels = rng.integers(_CLASSES, size=count)
    pairs = pair((source, labels), target, batch_size, seed=0)
    return partial(model.fit, pairs, verbose=0)


def _seconds_of_run(devices, steps):
    """CPU and wall seconds of a training by `scripts/train.py`."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = [
            "distribution=data_parallel",
            f"distribution.devices={devices}",
            f"trainer.batch_size={32 * devices}",
            f"trainer.steps={steps}",
            "compare=false",
            "selection=none",
        ]
        script = [str(ROOT / "scripts/train.py"), *overrides, f"hydra.run.dir={folder}/run"]
        run_python(script, folder=folder)
        summary = json.loads((pathlib.Path(folder) / "run/summary.json").read_text())
    return summary["cpu_seconds"], summary["seconds"]


def _sizes(name, given):
    sizes = check_integers(name, given, 1)
    if len(sizes) < 2:
        raise ValueError(f"`{name}` must hold at least two sizes. Received: {sizes}")
    return sizes
