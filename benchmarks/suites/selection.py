"""Label-free scores of many examples, beside the predictions that they need."""

import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from benchmarks.bounds import bound, measured_peak, work_of_predictions
from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, in_turns
from dann.adaptation import DANN
from dann.checks import check_choice, check_integer, check_integers
from dann.selection import compute_scores
from dann.selection.scores import choose


@SUITES.register("selection", summary="Label-free scores of many examples, beside predictions.")
class SelectionSuite:
    """Measures scores of a `DANN`, and beside them `model.predict` of the same examples.

    Each way has a note with the memory that it held at its peak, without that of the backend.

    Args:
        backbone: Functional model from images to features.
        num_classes: Number of classes.
        examples: Numbers of target examples, each at least 12; a sixth as many are the source's.
        scores: Names of scores.
        slow: The one of them that a second way leaves out.
        batch_size: Examples at a time.
        rounds: See `benchmarks.timing.in_turns`.
    """

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int = 10,
        examples: Sequence[int] = (15000, 60000),
        scores: Sequence[str] = ("source_accuracy", "entropy", "info_max", "snd", "bnm", "mcc"),
        slow: str = "snd",
        batch_size: int = 256,
        rounds: int = 3,
    ):
        if not isinstance(backbone, keras.Model):
            raise TypeError(f"`backbone` must be a Keras model. Received: {backbone!r}")
        self.num_classes = check_integer("num_classes", num_classes, 1)
        self.model = DANN(backbone, num_classes=num_classes)
        self.examples = check_integers("examples", examples, 12)
        self.scores = list(choose(scores))
        self.slow = check_choice("slow", slow, self.scores)
        self.batch_size = check_integer("batch_size", batch_size, 1)
        self.rounds = check_integer("rounds", rounds, 1)

    def measure(self) -> list[Comparison]:
        """Returns what each way takes, for each number of examples."""
        peak = measured_peak()
        return [self._of(count, peak) for count in self.examples]

    def _of(self, count, peak):
        rng = np.random.default_rng(0)
        shape = self.model.backbone.input_shape[1:]
        source, target = (
            rng.integers(256, size=(size, *shape), dtype="uint8") for size in (count // 6, count)
        )
        labels = rng.integers(self.num_classes, size=len(source))
        predict = partial(self.model.predict, batch_size=self.batch_size, verbose=0)
        score = partial(
            compute_scores,
            self.model,
            source=(source, labels),
            target=target,
            batch_size=self.batch_size,
        )
        others = [name for name in self.scores if name != self.slow]
        ways: dict[str, Callable[[], Any]] = {
            "model.predict": lambda: [predict(source), predict(target)],
            f"dann, {len(self.scores)} scores": partial(score, scores=self.scores),
        }
        if others:
            ways[f"dann, the same without {self.slow}"] = partial(score, scores=others)
        times = in_turns(ways, self.rounds)
        notes = {name: f"{_peak(way) / 2**20:,.0f} MiB" for name, way in ways.items()}
        parts = self.model.backbone, self.model.label_head
        work = work_of_predictions((part, count + len(source)) for part in parts)
        told = bound("A prediction of all", work, peak)
        return Comparison(f"{count:,} examples", times, notes=notes, own_remark=told)


def _peak(way):
    """Bytes that Python and NumPy held at most while a way ran, above those from before."""
    tracemalloc.start()
    try:
        way()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
