"""Diagnostics, beside the gradient of a training step."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, in_turns
from dann.adaptation import DANN
from dann.checks import check_integer
from dann.diagnostics.certificate import reversal_certificate
from dann.diagnostics.conflict import gradient_conflict
from dann.diagnostics.game import game
from dann.diagnostics.instruments.fields import players, step_field
from dann.diagnostics.instruments.modes import in_mode
from dann.diagnostics.sharpness import sharpness


@SUITES.register("diagnostics", summary="Diagnostics of a DANN, in gradients of a training step.")
class DiagnosticsSuite:
    """Measures diagnostics of a `DANN`, and beside them the gradient of a step in training.

    That gradient is of all weights, with the forward pass that it needs. Certificate and conflict
    are measured eagerly, where a call costs its passes, and in a graph, where every call also
    traces them; `game` and `sharpness` from end to end, once.

    Args:
        backbone: Functional model from images to features.
        num_classes: Number of classes.
        batch_size: Number of examples of each domain, at least 2.
        few: So many of them for `game` and `sharpness`, as in `dann.diagnostics.measure`; at least
            2.
        rounds: See `benchmarks.timing.in_turns`.
    """

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int = 10,
        batch_size: int = 64,
        few: int = 32,
        rounds: int = 5,
    ):
        check_integer("num_classes", num_classes, 1)
        if not isinstance(backbone, keras.Model):
            raise TypeError(f"`backbone` must be a Keras model. Received: {backbone!r}")
        self.backbone = backbone
        self.num_classes = num_classes
        self.data = self._examples(check_integer("batch_size", batch_size, 2))
        self.few = self._examples(check_integer("few", few, 2))
        self.rounds = check_integer("rounds", rounds, 1)
        self.model = self.dann(backbone)

    def dann(self, backbone: keras.Model) -> DANN:
        """Returns what is diagnosed, with a backbone."""
        model = DANN(backbone, self.num_classes)
        model.compile(keras.optimizers.SGD(0.01, momentum=0.9))
        return model

    def measure(self) -> list[Comparison]:
        """Returns what each diagnostic takes."""
        model, found = self.model, {}
        task = f"{len(self.data[1])} + {len(self.data[1])} examples"
        times = in_turns(self.ways(), self.rounds)
        weights = sum(math.prod(variable.shape) for variable in players(model))
        once = {
            "game": lambda: found.update(game(model, self.few)),
            "sharpness": lambda: sharpness(model, self.few),
        }
        whole = in_turns(once, rounds=1, warm_up=False)
        few = f"{len(self.few[1])} + {len(self.few[1])} examples, once, tracing included"
        products = {"game": f"{found['game/products']} products with the Jacobian"}
        return [
            Comparison(task, times, notes=self.passes(), own_remark=f"{weights:,} weights"),
            Comparison(few, whole, notes=products),
        ]

    def ways(self) -> dict[str, Callable[[], Any]]:
        """Returns what takes turns, by name; the first is what the others are compared with."""
        field = step_field(self.model, self.data)
        values = [ops.convert_to_tensor(variable.value) for variable in players(self.model)]
        compiled = in_mode(field, "graph")
        certificate = partial(reversal_certificate, self.model, self.data)
        conflict = partial(gradient_conflict, self.model, self.data)
        return {
            "a step's gradient, eager": partial(field, *values),
            "a step's gradient, in a graph": partial(compiled, *values),
            "certificate, eager": partial(certificate, mode="eager"),
            "certificate, traced into a graph": partial(certificate, mode="graph"),
            "conflict, eager": partial(conflict, mode="eager"),
            "conflict, traced into a graph": partial(conflict, mode="graph"),
        }

    def passes(self) -> dict[str, str]:
        """Returns how many backward passes through the backbone a diagnostic takes, by way."""
        counter = Counter()
        features = counter(self.backbone.output)
        model = self.dann(keras.Model(self.backbone.input, features))
        told = {}
        for name, diagnostic in {
            "certificate, eager": reversal_certificate,
            "conflict, eager": gradient_conflict,
        }.items():
            counter.passes = 0
            diagnostic(model, self.data, mode="eager")
            told[name] = f"{counter.passes} backward passes"
        return told

    def _examples(self, count):
        rng = np.random.default_rng(0)
        shape = (count, *self.backbone.input_shape[1:])
        images = {name: rng.uniform(size=shape).astype("float32") for name in ("source", "target")}
        return images, rng.integers(self.num_classes, size=count)


class Counter(keras.layers.Layer):
    """Adds 1 and counts the gradients that come back, in eager mode.

    It is no identity, because the certificate takes a gradient of each identity by itself.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.passes = 0

    def call(self, inputs):
        @ops.custom_gradient
        def counted(x):
            def backward(upstream):
                self.passes += 1
                return upstream

            return x + 1, backward

        return counted(inputs)
