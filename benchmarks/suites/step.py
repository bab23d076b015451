"""Steps of training, beside the same steps by other means."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from benchmarks.rivals import Training, can_measure, left_out
from benchmarks.timing import Comparison, in_turns
from dann.adaptation import DANN, SourceOnly
from dann.data import pair
from dann.layers import BatchNormalization
from dann.networks import cnn_backbone, domain_head, label_head, mlp_backbone, mnist_backbone

_RATE, _CLASSES, _BATCH = 0.01, 10, 64
_EXECUTION = 20  # steps


class Task(NamedTuple):
    """What is trained.

    Attributes:
        backbone: Model from inputs to features.
        label_units: Widths of the hidden layers of the label head.
        domain_units: Widths of those of the domain head.
        steps: Number of steps of a turn.
        batch_size: Examples of each domain in a step.
    """

    backbone: keras.Model
    label_units: Sequence[int]
    domain_units: Sequence[int]
    steps: int
    batch_size: int = _BATCH


def tasks() -> dict[str, Task]:
    """Returns the DANN paper's network for MNIST-M, that of the default run, and a small one."""
    cnn = cnn_backbone((16, 16, 3), (16, 32), 100, input_range=(0, 1))
    return {
        "paper": Task(mnist_backbone(input_range=(0, 1)), (100, 100), (100,), 20),
        "small_cnn": Task(cnn, (), (100,), 100),
        "tiny_mlp": Task(mlp_backbone((8,), (32, 32)), (), (32,), 400),
    }


def training_steps(settings: Any) -> list[Comparison]:
    """Measures a step of `dann.DANN` and of `dann.SourceOnly` in `fit`, and of their rivals.

    All train one network on the same arrays, shuffled, with stochastic gradient descent: a
    `tf.function` by hand fed by `tf.data`, ADAPT's `DANN`, and PyTorch with threads that do not
    spin. Networks by hand have Keras's own layers, as does one of `dann` if its network has others.
    A rival that is not installed is named and left out.

    Args:
        settings: `rounds` and `seconds`; see `benchmarks.timing.in_turns`.
    """
    comparisons = []
    for name, task in tasks().items():
        for kind, ways in (("DANN", ways_of_dann(task)), ("source only", ways_of_source(task))):
            times = in_turns(ways, settings.rounds, settings.seconds, units=task.steps)
            reference = next(way for way in ways if not way.startswith("dann"))
            comparisons.append(Comparison(f"{name}, {kind}", times, reference, remark=left_out()))
    return comparisons


def ways_of_dann(task: Task) -> dict[str, Callable[[], Any]]:
    """Returns what takes the steps of DANN, by name."""
    arrays = arrays_of(task)
    ways = {"dann": _by_dann(task, arrays)}
    if task.steps % _EXECUTION == 0:
        ways[f"dann, {_EXECUTION} steps a call"] = _by_dann(task, arrays, _EXECUTION)
    if any(isinstance(layer, BatchNormalization) for layer in task.backbone.layers):
        ways["dann, Keras's layers"] = _by_dann(task, arrays, of_keras=True)
    ways["tf.function by hand"] = _by_hand(task, arrays)
    if can_measure("adapt"):
        from benchmarks.rivals.adapt_dann import adapt_steps

        ways["ADAPT"] = adapt_steps(training_of(task))
    if can_measure("torch"):
        from benchmarks.rivals.torch_twin import torch_steps

        ways["PyTorch"] = torch_steps(training_of(task))[0]
    return ways


def ways_of_source(task: Task) -> dict[str, Callable[[], Any]]:
    """Returns what takes steps on the source alone, by name."""
    source, target, labels = arrays_of(task)
    backbone, head, _ = parts_of(task)
    ours = SourceOnly(backbone, label_head=head)
    ours.compile(keras.optimizers.SGD(_RATE), metrics=["accuracy"])
    pairs = pair((source, labels), target, task.batch_size, seed=0)
    backbone, head, _ = parts_of(task, of_keras=True)
    plain = keras.Model(backbone.input, head(backbone.output))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    plain.compile(keras.optimizers.SGD(_RATE), loss, metrics=["accuracy"])
    quiet: Any = 0
    return {
        "dann, SourceOnly": lambda: ours.fit(pairs, verbose=0),
        "Keras": lambda: plain.fit(source, labels, task.batch_size, verbose=quiet),
    }


def parts_of(task: Task, of_keras: bool = False) -> list[keras.Model]:
    """Returns the backbone, a label head and a domain head, with weights of their own.

    Args:
        task: What is trained.
        of_keras: Whether the backbone has Keras's own layers alone. Defaults to `False`.
    """
    keras.utils.set_random_seed(0)
    length = task.backbone.output_shape[-1]
    return [
        keras.models.clone_model(task.backbone, clone_function=_of_keras if of_keras else None),
        label_head(length, _CLASSES, task.label_units),
        domain_head(length, task.domain_units),
    ]


def arrays_of(task: Task) -> list[np.ndarray]:
    """Returns source inputs, target inputs and source labels of a turn's batches."""
    rng = np.random.default_rng(0)
    shape = (task.steps * task.batch_size, *task.backbone.input_shape[1:])
    inputs = [rng.uniform(size=shape).astype("float32") for _ in range(2)]
    return [*inputs, rng.integers(_CLASSES, size=len(inputs[0]))]


def training_of(task: Task) -> Training:
    """Returns what rivals are given to train on the arrays of a turn."""
    numbers = _CLASSES, task.batch_size, task.steps, _RATE
    return Training(parts_of(task), arrays_of(task), *numbers)


def step_by_hand(parts: Sequence[keras.Model]) -> Callable[..., Any]:
    """Returns a `tf.function` that takes a step of DANN without any class of this package.

    It takes source inputs, target inputs and source labels, and returns the loss.

    Args:
        parts: Backbone, label head and domain head.
    """
    backbone, head, domain = parts
    variables = [weight.value for part in parts for weight in part.trainable_variables]

    @tf.custom_gradient
    def reverse(x):
        return tf.identity(x), lambda upstream: -upstream

    @tf.function(autograph=False)
    def step(source, target, labels):
        count = source.shape[0]
        domains = tf.concat([tf.zeros((count, 1)), tf.ones((target.shape[0], 1))], axis=0)
        with tf.GradientTape() as tape:
            features = backbone(tf.concat([source, target], axis=0), training=True)
            logits = head(features[:count], training=True)
            guesses = domain(reverse(features), training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            ) + tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(domains, guesses))
        for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(_RATE * slope)
        return loss

    return step


def _by_dann(task, arrays, execution=1, of_keras=False):
    backbone, head, domain = parts_of(task, of_keras)
    model = DANN(backbone, label_head=head, domain_head=domain, strength=1.0)
    optimizer = keras.optimizers.SGD(_RATE)
    model.compile(optimizer, metrics=["accuracy"], steps_per_execution=execution)
    source, target, labels = arrays
    pairs = pair((source, labels), target, task.batch_size, seed=0)
    return lambda: model.fit(pairs, verbose=0)


def _by_hand(task, arrays):
    step = step_by_hand(parts_of(task, of_keras=True))
    source, target, labels = arrays
    data = tf.data.Dataset
    domains = data.from_tensor_slices((source, labels)), data.from_tensor_slices(target)
    batches = [
        domain.shuffle(len(source)).batch(task.batch_size, drop_remainder=True)
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
