"""What Jacobians cost, beside a tape's own."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.autodiff import batch_jacobian, frobenius_norm, singular_values
from dann.autodiff.engines import running_engine

WAYS = (
    "batch_jacobian",
    "tape.batch_jacobian, pfor",
    "tape.batch_jacobian, while",
    "tape.jacobian",
    "frobenius_norm",
    "singular_values",
    "tape.batch_jacobian and SVD",
)


class JacobianSpeed:
    """Measures `dann.autodiff`, on TensorFlow, and plain `tf.GradientTape` on networks' Jacobians.

    Every plain way is a `tf.function`. The ways take turns; what counts is the least CPU time,
    which other work on the machine disturbs least. A plain way that needs more than the budget is
    left out.

    Args:
        networks: Keras models by name, each with one input and one output.
        batch_sizes: Numbers of examples.
        k: Number of singular values; networks with fewer are measured without.
        rounds: How often each way is measured, after a first run that does not count.
        seconds: CPU time that a way is repeated for in a round, at least once.
        memory_budget: Bytes, for `batch_jacobian` and for the ways beside it.
        only: Names of the ways to measure, for batches at which some take minutes. Defaults to
            `None`: all.

    Raises:
        ValueError: If an argument is out of range, or a way is unknown.
    """

    def __init__(
        self,
        networks: Mapping[str, keras.Model],
        batch_sizes: Sequence[int] = (1, 4, 16, 64, 256),
        k: int = 20,
        rounds: int = 5,
        seconds: float = 0.1,
        memory_budget: int = 2**30,
        only: Sequence[str] | None = None,
    ):
        if not networks or not batch_sizes:
            raise ValueError(
                "`networks` and `batch_sizes` must each hold at least one. Received: "
                f"{list(networks)}, {list(batch_sizes)}"
            )
        if min(*batch_sizes, k, rounds) < 1 or seconds < 0:
            raise ValueError(
                "`batch_sizes`, `k` and `rounds` must be at least 1 and `seconds` at least 0. "
                f"Received: {list(batch_sizes)}, {k}, {rounds}, {seconds}"
            )
        unknown = [name for name in only or () if name not in WAYS]
        if unknown:
            raise ValueError(f"`only` must hold some of {WAYS}. Received: {unknown}")
        self.networks = dict(networks)
        self.batch_sizes = list(batch_sizes)
        self.k = k
        self.rounds = rounds
        self.seconds = seconds
        self.memory_budget = memory_budget
        self.only = WAYS if only is None else tuple(only)

    def measure(self) -> dict[tuple[str, int], dict[str, float]]:
        """Returns CPU milliseconds by way, for each network and batch size."""
        results = {}
        for name, network in self.networks.items():
            for batch in self.batch_sizes:
                images = np.random.default_rng(0).uniform(size=(batch, *network.input_shape[1:]))
                ways = self.ways(network, keras.ops.convert_to_tensor(images, "float32"))
                results[name, batch] = self._least_times(ways)
        return results

    def ways(self, network: keras.Model, x: Any) -> dict[str, Callable[[], Any]]:
        """Returns what is compared, by name: functions that compute the whole of it."""
        inputs, outputs = math.prod(x.shape[1:]), math.prod(network.output_shape[1:])
        largest = running_engine().largest_tensor(network, x)
        result = 12 * x.shape[0] * inputs * outputs
        fits = {
            "pfor": max(result, 12 * outputs * largest) <= self.memory_budget,
            "while": result + 24 * largest <= self.memory_budget,
        }
        ways: dict[str, Callable] = {}
        if fits["while"]:
            ways["batch_jacobian"] = lambda: (
                batch_jacobian(network, x, memory_budget=self.memory_budget).values
            )
        for engine in fits:
            if fits[engine]:
                ways[f"tape.batch_jacobian, {engine}"] = _bound(by_tape(network, engine), x)
        if 12 * x.shape[0] * outputs * largest <= self.memory_budget:
            ways["tape.jacobian"] = _bound(whole_by_tape(network), x)
        ways["frobenius_norm"] = lambda: frobenius_norm(network, x)
        if self.k <= min(inputs, outputs):
            ways["singular_values"] = lambda: singular_values(network, x, self.k)
            if fits["while"]:
                tape = by_tape(network, "while")
                ways["tape.batch_jacobian and SVD"] = lambda: _spectrum(tape(x))[:, : self.k]
        return {name: way for name, way in ways.items() if name in self.only}

    def _least_times(self, ways):
        for way in ways.values():
            way()
        least = dict.fromkeys(ways, math.inf)
        for _ in range(self.rounds):
            for name, way in ways.items():
                begin, count = time.process_time(), 0
                while count == 0 or time.process_time() - begin < self.seconds:
                    way()
                    count += 1
                least[name] = min(least[name], (time.process_time() - begin) / count)
        return {name: 1000 * seconds for name, seconds in least.items()}


def by_tape(network: keras.Model, engine: str) -> Callable[[Any], Any]:
    """Returns a `tf.function` around a tape's `batch_jacobian`, as it is commonly written."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def compute(x):
        with tf.GradientTape(persistent=engine == "while") as tape:
            tape.watch(x)
            y = network(x, training=False)
        return tape.batch_jacobian(y, x, experimental_use_pfor=engine == "pfor")

    return compute


def whole_by_tape(network: keras.Model) -> Callable[[Any], Any]:
    """Returns a `tf.function` around a tape's `jacobian`, as it is commonly written."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def compute(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = network(x, training=False)
        return tape.jacobian(y, x)

    return compute


def _bound(function, x):
    return lambda: function(x)


def _spectrum(matrices):
    import tensorflow as tf

    shape = (matrices.shape[0], matrices.shape[1], -1)
    return tf.linalg.svd(tf.reshape(matrices, shape), compute_uv=False)


def jacobian_table(results: Mapping[tuple[str, int], Mapping[str, float]]) -> str:
    """Formats what `JacobianSpeed.measure` returns: a line a way, CPU milliseconds."""
    lines = [f"{'network':<12}{'batch':>6}  {'way':<30}{'CPU ms':>12}"]
    for (name, batch), times in results.items():
        for way, milliseconds in times.items():
            lines.append(f"{name:<12}{batch:>6}  {way:<30}{milliseconds:>12.2f}")
    return "\n".join(lines)
