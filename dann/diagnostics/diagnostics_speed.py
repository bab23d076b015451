"""What diagnostics cost, beside the gradient of a training step."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation import DANN
from dann.diagnostics import backward_pass, conflict
from dann.diagnostics.catalogue import first
from dann.diagnostics.certificate import reversal_certificate
from dann.diagnostics.conflict import gradient_conflict
from dann.diagnostics.fields import players, step_field
from dann.diagnostics.game import game
from dann.diagnostics.modes import in_mode
from dann.diagnostics.sharpness import sharpness
from dann.diagnostics.taps import replaced


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one call takes.

    Args:
        cpu: CPU milliseconds of all threads, the least of all rounds.
        steps: The same in multiples of the gradient of a training step, eager as the call is, or
            `None` where the call also traces.
        passes: Backward passes through the model, or products with a Jacobian, or `None` where
            they are not counted.
    """

    cpu: float
    steps: float | None = None
    passes: int | None = None


class DiagnosticsSpeed:
    """Measures diagnostics of a `DANN`, and beside them the gradient of a step in training.

    That gradient is of all weights, with the pass forward that it needs. Certificate and conflict
    are measured eagerly, where a call costs its passes, and in a graph, where every call also
    traces them; `game` and `sharpness` from end to end, once.

    Args:
        backbone: Functional model from images to features.
        num_classes: Number of classes.
        batch_size: Number of examples of each domain.
        few: So many of them for `game` and `sharpness`, as in `dann.diagnostics.measure`.
        rounds: How often what takes seconds is measured, after a first run that does not count.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int = 10,
        batch_size: int = 64,
        few: int = 32,
        rounds: int = 5,
    ):
        if min(batch_size, few) < 2 or min(num_classes, rounds) < 1:
            raise ValueError(
                "`batch_size` and `few` must be at least 2, `num_classes` and `rounds` at least 1. "
                f"Received: {batch_size}, {few}, {num_classes}, {rounds}"
            )
        self.model = DANN(backbone, num_classes)
        self.model.compile(keras.optimizers.SGD(0.01, momentum=0.9))
        rng = np.random.default_rng(0)
        shape = (batch_size, *backbone.input_shape[1:])
        images = {name: rng.uniform(size=shape).astype("float32") for name in ("source", "target")}
        self.data = images, rng.integers(num_classes, size=batch_size)
        self.few = few
        self.rounds = rounds

    def measure(self) -> dict[str, Cost]:
        """Returns what each diagnostic costs, by name."""
        model, data = self.model, self.data
        values = [ops.convert_to_tensor(variable.value) for variable in players(model)]
        field = step_field(model, data)
        step = self._least(lambda: field(*values))
        compiled = in_mode(field, "graph")
        costs = {
            "a step's gradient, eager": Cost(step, 1.0, 1),
            "a step's gradient, in a graph": Cost(self._least(lambda: compiled(*values))),
        }
        for name, function in {
            "certificate": reversal_certificate,
            "conflict": gradient_conflict,
        }.items():
            eager = _bound(function, model, data, "eager")
            taken = self._least(eager)
            costs[f"{name}, eager"] = Cost(taken, taken / step, backward_passes(eager))
            traced = _bound(function, model, data, "graph")
            costs[f"{name}, traced into a graph"] = Cost(self._least(traced))
        few = first(data, self.few)
        taken, found = _timed(lambda: game(model, few))
        costs["game, from end to end"] = Cost(taken, passes=found["game/products"])
        costs["sharpness, from end to end"] = Cost(_timed(lambda: sharpness(model, few))[0])
        return costs

    def report(self) -> str:
        """Measures, and returns what was measured as a table."""
        weights = sum(math.prod(variable.shape) for variable in players(self.model))
        count = len(self.data[1])
        about = f"{weights:,} weights, {count} + {count} examples, {self.few} + {self.few} for game"
        return f"{about} and sharpness\n{cost_table(self.measure())}"

    def _least(self, way):
        way()
        return min(_timed(way)[0] for _ in range(self.rounds))


def backward_passes(call: Callable[[], Any]) -> int:
    """Returns how many gradients through the model a call of certificate or conflict takes."""
    count = 0

    def counting(gradients):
        def counted(*args):
            nonlocal count
            count += 1
            return gradients(*args)

        return counted

    modules = conflict, backward_pass
    with replaced([(each, "gradients", counting(each.gradients)) for each in modules]):
        call()
    return count


def _bound(function, model, data, mode):
    return lambda: function(model, data, mode=mode)


def _timed(way):
    begin = time.process_time()
    found = way()
    return 1000 * (time.process_time() - begin), found


def cost_table(costs: Mapping[str, Cost]) -> str:
    """Formats what `DiagnosticsSpeed.measure` returns: a line a diagnostic."""
    lines = [f"{'what':<34}{'CPU ms':>12}{'steps':>9}{'passes':>9}"]
    for name, cost in costs.items():
        steps = "" if cost.steps is None else f"{cost.steps:.2f}"
        passes = "" if cost.passes is None else str(cost.passes)
        lines.append(f"{name:<34}{cost.cpu:>12.2f}{steps:>9}{passes:>9}".rstrip())
    return "\n".join(lines)
