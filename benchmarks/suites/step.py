"""Training steps, compared with other libraries."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from benchmarks.rivals import is_installed
from benchmarks.timing import Comparison, time_in_turns
from dann.adaptation import DANN
from dann.data import pair
from dann.layers import BatchNormalization
from dann.networks import cnn_backbone, domain_head, label_head, mlp_backbone, mnist_backbone

RATE, _CLASSES, _BATCH = 0.01, 10, 64
_EXECUTION = 20  # steps


class Task(NamedTuple):
    """Networks and sizes of a training benchmark.

    Attributes:
        backbone: Model from inputs to features.
        label_units: Widths of the hidden layers of the label head.
        domain_units: Widths of the hidden layers of the domain head.
        steps: Number of steps per turn.
        batch_size: Examples of each domain per step.
    """

    backbone: keras.Model
    label_units: Sequence[int]
    domain_units: Sequence[int]
    steps: int
    batch_size: int = _BATCH


def make_tasks() -> dict[str, Task]:
    """Returns the DANN paper's MNIST-M network, the default run's network and a small one."""
    cnn = cnn_backbone((16, 16, 3), (16, 32), 100, input_range=(0, 1))
    return {
        "paper": Task(mnist_backbone(input_range=(0, 1)), (100, 100), (100,), 20),
        "small_cnn": Task(cnn, (), (100,), 100),
        "tiny_mlp": Task(mlp_backbone((8,), (32, 32)), (), (32,), 400),
    }


def measure_steps(settings: Any) -> list[Comparison]:
    """Measures a step of `dann.DANN` in `fit`, and the same step in other libraries.

    All programs train the same network on the same shuffled arrays with stochastic gradient
    descent: a hand-written `tf.function` fed by `tf.data`, with Keras's own layers; ADAPT's `DANN`;
    and PyTorch with idle threads that sleep. Libraries that are not installed are skipped.

    Args:
        settings: `rounds` and `seconds`; see `benchmarks.timing.time_in_turns`.
    """
    rounds, seconds = settings.rounds, settings.seconds
    return [
        Comparison(name, time_in_turns(make_programs(task), rounds, seconds, units=task.steps))
        for name, task in make_tasks().items()
    ]


def make_programs(task: Task) -> dict[str, Callable[[], Any]]:
    """Returns functions that take the DANN steps of one turn, by name."""
    arrays = make_arrays(task)
    programs = {
        "handwritten tf.function": by_hand(task, arrays),
        "dann": by_dann(task, arrays),
        f"dann, {_EXECUTION} steps per call": by_dann(task, arrays, _EXECUTION),
    }
    if is_installed("adapt"):
        from benchmarks.rivals.adapt_dann import adapt_steps

        programs["ADAPT"] = adapt_steps(make_parts(task), arrays, task.batch_size, RATE)
    if is_installed("torch"):
        from benchmarks.rivals.torch_twin import torch_steps

        programs["PyTorch"] = torch_steps(make_parts(task), arrays, task.batch_size, RATE)
    return programs


def by_dann(task: Task, arrays: Sequence[np.ndarray], execution: int = 1) -> Callable[[], Any]:
    """Returns a function that trains `dann.DANN`, with `execution` steps per graph call."""
    backbone, head, domain = make_parts(task)
    model = DANN(backbone, label_head=head, domain_head=domain, strength=1.0)
    optimizer = keras.optimizers.SGD(RATE)
    model.compile(optimizer, metrics=["accuracy"], steps_per_execution=execution)
    source, target, labels = arrays
    pairs = pair((source, labels), target, task.batch_size, seed=0)
    return lambda: model.fit(pairs, verbose=0)


def by_hand(task: Task, arrays: Sequence[np.ndarray]) -> Callable[[], Any]:
    """Returns a function that takes the steps with `step_by_hand`."""
    step = step_by_hand(make_parts(task, keras_layers=True))
    source, target, labels = arrays
    data = tf.data.Dataset
    domains = data.from_tensor_slices((source, labels)), data.from_tensor_slices(target)
    batches = [
        domain.shuffle(len(source)).batch(task.batch_size, drop_remainder=True)
        for domain in domains
    ]
    pairs = data.zip(*batches).prefetch(tf.data.AUTOTUNE)

    def run():
        for (source_inputs, source_labels), target_inputs in pairs:
            step(source_inputs, target_inputs, source_labels)

    return run


def make_parts(task: Task, keras_layers: bool = False) -> list[keras.Model]:
    """Returns a new backbone, label head and domain head.

    Args:
        task: Networks and sizes.
        keras_layers: Whether the backbone uses only Keras's own layers. Defaults to `False`.
    """
    keras.utils.set_random_seed(0)
    length = task.backbone.output_shape[-1]
    clone = _clone_layer if keras_layers else None
    return [
        keras.models.clone_model(task.backbone, clone_function=clone),
        label_head(length, _CLASSES, task.label_units),
        domain_head(length, task.domain_units),
    ]


def make_arrays(task: Task) -> list[np.ndarray]:
    """Returns source inputs, target inputs and source labels for one turn."""
    rng = np.random.default_rng(0)
    shape = (task.steps * task.batch_size, *task.backbone.input_shape[1:])
    inputs = [rng.uniform(size=shape).astype("float32") for _ in range(2)]
    return [*inputs, rng.integers(_CLASSES, size=len(inputs[0]))]


def step_by_hand(parts: Sequence[keras.Model]) -> Callable[..., Any]:
    """Returns a `tf.function` that takes a DANN step without using this package.

    The function takes source inputs, target inputs and source labels, and returns the loss.

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
            domain_logits = domain(reverse(features), training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            ) + tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(domains, domain_logits))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(RATE * gradient)
        return loss

    return step


def _clone_layer(layer):
    """Clones a layer; replaces `dann.layers.BatchNormalization` with the Keras class."""
    is_fused = isinstance(layer, BatchNormalization)
    layer_class = keras.layers.BatchNormalization if is_fused else type(layer)
    return layer_class.from_config(layer.get_config())
