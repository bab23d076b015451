"""Steps of training, beside the same steps by other means."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from benchmarks.arguments import check_mapping, chosen
from benchmarks.bounds import bound, measured_peak, work_of_step
from benchmarks.plain_training import plain_training
from benchmarks.rivals import Training, can_measure, without
from benchmarks.suites import SUITES
from benchmarks.timing import Comparison, in_turns
from dann.adaptation import DANN, SourceOnly
from dann.checks import check_integer, check_number
from dann.data import pair
from dann.layers import BatchNormalization
from dann.networks import domain_head, label_head

_RATE = 0.01
_EXECUTION = 20  # steps
WAYS = (
    "dann",
    f"dann, {_EXECUTION} steps an execution",
    "dann, Keras's layers",
    "tf.function by hand",
    "ADAPT",
    "PyTorch",
    "dann, SourceOnly",
    "Keras",
)


class Task(NamedTuple):
    """What is trained.

    Attributes:
        backbone: Model from inputs to features.
        label_units: Widths of the hidden layers of the label head.
        domain_units: Widths of those of the domain head.
        steps: Number of steps of a turn.
    """

    backbone: keras.Model
    label_units: Sequence[int]
    domain_units: Sequence[int]
    steps: int


@SUITES.register("step", summary="Steps of training, beside the same by other means.")
class StepSuite:
    """Measures a training step of `dann.DANN` in `fit`, and the same step of its rivals.

    All train one network on the same arrays, shuffled, with stochastic gradient descent: a
    `tf.function` by hand fed by `tf.data`, ADAPT's `DANN`, and PyTorch with threads that do not
    spin. Networks by hand have Keras's own layers, as does one of `dann` if its network has others.
    A rival that is not installed is named and left out.

    Args:
        networks: By name, the arguments of a `Task`.
        num_classes: Number of classes.
        batch_size: Examples of each domain in a step.
        rounds: See `benchmarks.timing.in_turns`.
        seconds: The same.
        only: Names of the ways to measure. Defaults to `None`: all.
    """

    def __init__(
        self,
        networks: Mapping[str, Mapping[str, Any]],
        num_classes: int = 10,
        batch_size: int = 64,
        rounds: int = 5,
        seconds: float = 1.0,
        only: Sequence[str] | None = None,
    ):
        networks = check_mapping("networks", networks)
        self.tasks = {
            name: Task(**check_mapping("networks", given)) for name, given in networks.items()
        }
        for name, task in self.tasks.items():
            if not isinstance(task.backbone, keras.Model):
                raise TypeError(
                    "`networks` must have a Keras model as backbone. "
                    f"Received: {task.backbone!r} of {name}"
                )
            check_integer(f"networks.{name}.steps", task.steps, 1)
        self.num_classes = check_integer("num_classes", num_classes, 2)
        self.batch_size = check_integer("batch_size", batch_size, 1)
        self.rounds = check_integer("rounds", rounds, 1)
        self.seconds = check_number("seconds", seconds, 0)
        self.only = chosen(only, WAYS)

    def measure(self) -> list[Comparison]:
        """Returns what a step takes, by network and way."""
        peak = measured_peak()
        comparisons = []
        for name, task in self.tasks.items():
            backbone, head, domain = self.parts(task)
            size, both = self.batch_size, 2 * self.batch_size
            works = {
                "DANN": [(backbone, both), (head, size), (domain, both)],
                "source only": [(backbone, size), (head, size)],
            }
            ways = {"DANN": self.ways(task), "source only": self.ways_of_source_only(task)}
            for kind, all_its in ways.items():
                its = {way: run for way, run in all_its.items() if way in self.only}
                if not its:
                    continue
                times = in_turns(its, self.rounds, self.seconds, units=task.steps)
                reference = next((way for way in its if not way.startswith("dann")), None)
                told = without(("adapt", "torch"), bound("A step", work_of_step(works[kind]), peak))
                comparisons.append(Comparison(f"{name}, {kind}", times, reference, own_remark=told))
        return comparisons

    def parts(self, task: Task, of_keras: bool = False) -> list[keras.Model]:
        """Returns the backbone, a label head and a domain head, with weights of their own.

        Args:
            task: What is trained.
            of_keras: Whether the backbone has Keras's own layers alone. Defaults to `False`.
        """
        keras.utils.set_random_seed(0)
        length = task.backbone.output_shape[-1]
        return [
            keras.models.clone_model(task.backbone, clone_function=_of_keras if of_keras else None),
            label_head(length, self.num_classes, task.label_units),
            domain_head(length, task.domain_units),
        ]

    def arrays(self, task: Task, steps: int) -> list[np.ndarray]:
        """Returns source inputs, target inputs and source labels of so many batches."""
        rng = np.random.default_rng(0)
        shape = (steps * self.batch_size, *task.backbone.input_shape[1:])
        inputs = [rng.uniform(size=shape).astype("float32") for _ in range(2)]
        return [*inputs, rng.integers(self.num_classes, size=len(inputs[0]))]

    def ways(self, task: Task) -> dict[str, Callable[[], Any]]:
        """Returns what takes the steps of DANN, by name."""
        arrays = self.arrays(task, task.steps)
        ways = {"dann": self._by_dann(task, arrays)}
        if task.steps % _EXECUTION == 0:
            name = f"dann, {_EXECUTION} steps an execution"
            ways[name] = self._by_dann(task, arrays, _EXECUTION)
        if any(isinstance(layer, BatchNormalization) for layer in task.backbone.layers):
            ways["dann, Keras's layers"] = self._by_dann(task, arrays, of_keras=True)
        ways["tf.function by hand"] = self._by_hand(task, arrays)
        if can_measure("adapt"):
            from benchmarks.rivals.adapt_dann import adapt_steps

            ways["ADAPT"] = adapt_steps(self.training(task, arrays))
        if can_measure("torch"):
            from benchmarks.rivals.torch_twin import torch_steps

            ways["PyTorch"] = torch_steps(self.training(task, arrays))[0]
        return ways

    def training(self, task: Task, arrays: Sequence[np.ndarray]) -> Training:
        """Returns what rivals are given to train on arrays."""
        numbers = self.num_classes, self.batch_size, task.steps, _RATE
        return Training(self.parts(task), arrays, *numbers)

    def ways_of_source_only(self, task: Task) -> dict[str, Callable[[], Any]]:
        """Returns what takes steps on the source alone, by name."""
        source, target, labels = self.arrays(task, task.steps)
        backbone, head, _ = self.parts(task)
        ours = SourceOnly(backbone, label_head=head)
        ours.compile(keras.optimizers.SGD(_RATE), metrics=["accuracy"])
        pairs = pair((source, labels), target, self.batch_size, seed=0)
        backbone, head, _ = self.parts(task, of_keras=True)
        plain = keras.Model(backbone.input, head(backbone.output))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        plain.compile(keras.optimizers.SGD(_RATE), loss, metrics=["accuracy"])
        quiet: Any = 0
        return {
            "dann, SourceOnly": lambda: ours.fit(pairs, verbose=0),
            "Keras": lambda: plain.fit(source, labels, self.batch_size, verbose=quiet),
        }

    def _by_dann(self, task, arrays, execution=1, of_keras=False):
        backbone, head, domain = self.parts(task, of_keras)
        model = DANN(backbone, label_head=head, domain_head=domain, strength=1.0)
        optimizer = keras.optimizers.SGD(_RATE)
        model.compile(optimizer, metrics=["accuracy"], steps_per_execution=execution)
        source, target, labels = arrays
        pairs = pair((source, labels), target, self.batch_size, seed=0)
        return lambda: model.fit(pairs, verbose=0)

    def _by_hand(self, task, arrays):
        step = plain_training(self.parts(task, of_keras=True), _RATE, strength=1.0).step
        source, target, labels = arrays
        data = tf.data.Dataset
        domains = data.from_tensor_slices((source, labels)), data.from_tensor_slices(target)
        batches = [
            domain.shuffle(len(source)).batch(self.batch_size, drop_remainder=True)
            for domain in domains
        ]
        pairs = data.zip(*batches).prefetch(tf.data.AUTOTUNE)

        def run():
            for (inputs, its_labels), others in pairs:
                step(inputs, others, its_labels)

        return run


def _of_keras(layer):
    """The same layer with weights of its own, of Keras's class where the package has its own."""
    plain = isinstance(layer, BatchNormalization)
    kind = keras.layers.BatchNormalization if plain else type(layer)
    return kind.from_config(layer.get_config())
