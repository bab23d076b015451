"""Steps of training, beside the same steps by other means."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from benchmarks.rivals import is_installed
from benchmarks.timing import Comparison, in_turns
from dann.adaptation import DANN
from dann.data import pair
from dann.layers import BatchNormalization
from dann.networks import cnn_backbone, domain_head, label_head, mlp_backbone, mnist_backbone

RATE, _CLASSES, _BATCH = 0.01, 10, 64
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
    """Measures a step of `dann.DANN` in `fit`, and of its rivals.

    All train one network on the same arrays, shuffled, with stochastic gradient descent: a
    `tf.function` by hand fed by `tf.data`, whose network has Keras's own layers, ADAPT's `DANN`,
    and PyTorch with threads that do not spin. A rival that is not installed is left out.

    Args:
        settings: `rounds` and `seconds`; see `benchmarks.timing.in_turns`.
    """
    comparisons = []
    for name, task in tasks().items():
        times = in_turns(ways_of(task), settings.rounds, settings.seconds, units=task.steps)
        comparisons.append(Comparison(name, times))
    return comparisons


def ways_of(task: Task) -> dict[str, Callable[[], Any]]:
    """Returns what takes the steps of DANN, by name."""
    arrays = arrays_of(task)
    ways = {
        "tf.function by hand": by_hand(task, arrays),
        "dann": by_dann(task, arrays),
        f"dann, {_EXECUTION} steps a call": by_dann(task, arrays, _EXECUTION),
    }
    if is_installed("adapt"):
        from benchmarks.rivals.adapt_dann import adapt_steps

        ways["ADAPT"] = adapt_steps(parts_of(task), arrays, task.batch_size, RATE)
    if is_installed("torch"):
        from benchmarks.rivals.torch_twin import torch_steps

        ways["PyTorch"] = torch_steps(parts_of(task), arrays, task.batch_size, RATE)
    return ways


def by_dann(task: Task, arrays: Sequence[np.ndarray], execution: int = 1) -> Callable[[], Any]:
    """Returns a function that takes the steps by `dann.DANN`, so many in a call."""
    backbone, head, domain = parts_of(task)
    model = DANN(backbone, label_head=head, domain_head=domain, strength=1.0)
    optimizer = keras.optimizers.SGD(RATE)
    model.compile(optimizer, metrics=["accuracy"], steps_per_execution=execution)
    source, target, labels = arrays
    pairs = pair((source, labels), target, task.batch_size, seed=0)
    return lambda: model.fit(pairs, verbose=0)


def by_hand(task: Task, arrays: Sequence[np.ndarray]) -> Callable[[], Any]:
    """Returns a function that takes the steps by `step_by_hand`."""
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
            variable.assign_sub(RATE * slope)
        return loss

    return step


def _of_keras(layer):
    """The same layer with weights of its own, of Keras's class where the package has its own."""
    plain = isinstance(layer, BatchNormalization)
    kind = keras.layers.BatchNormalization if plain else type(layer)
    return kind.from_config(layer.get_config())
