"""Replicas of a model: how several devices share a batch.

A `tf.distribute.Strategy` runs the step once per replica. Each replica receives its part of the
batch, and TensorFlow sums the gradients. Otherwise, including JAX with several devices, a step
receives the whole batch and there is one replica.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops

# Settings of Keras optimizers that change the gradients before TensorFlow sums them over replicas.
_PER_REPLICA = ("clipnorm", "global_clipnorm", "clipvalue", "gradient_accumulation_steps")


def _count_current_replicas():
    """Returns the number of replicas that share a batch in the current scope or step."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def divide_by_replicas(loss: Any) -> Any:
    """Divides the mean loss of a replica by the number of replicas.

    TensorFlow sums the gradients of the replicas, so together they descend the mean of the losses.
    """
    count = _count_current_replicas()
    return loss if count == 1 else ops.divide(loss, count)


def multiply_by_replicas(loss: Any) -> Any:
    """Reverts `divide_by_replicas`, which Keras applies to its own losses."""
    count = _count_current_replicas()
    return loss if count == 1 else ops.multiply(loss, count)


def average_over_replicas(tensors: Sequence[Any]) -> list[Any]:
    """Returns the mean of each tensor over the replicas, without gradient.

    Outside the step of a replica it returns the tensors unchanged.
    """
    if _count_current_replicas() == 1:
        return list(tensors)
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None:
        return list(tensors)
    means = replica.all_reduce(tf.distribute.ReduceOp.MEAN, [ops.stop_gradient(t) for t in tensors])
    return list(means)


def count_devices(model: keras.Model) -> int:
    """Returns the number of devices that share each batch of a model."""
    if keras.backend.backend() == "jax":
        distribution = keras.distribution.distribution()
        return 1 if distribution is None else distribution.num_model_replicas
    return count_replicas(model)


def count_replicas(model: keras.Model) -> int:
    """Returns the number of replicas of a model in TensorFlow's strategy; 1 without a strategy."""
    strategy = getattr(model, "distribute_strategy", None)
    return 1 if strategy is None else strategy.num_replicas_in_sync


def check_optimizer(optimizer: Any, replicas: int) -> None:
    """Checks that an optimizer does not treat the gradient of one replica as the whole gradient.

    TensorFlow sums the gradients after Keras clips or accumulates them, so `n` replicas would clip
    at `n` times the norm of one device.

    Raises:
        ValueError: If several replicas train, and the optimizer or an inner optimizer clips or
            accumulates.
    """
    for inner in _list_optimizers(optimizer) if replicas > 1 else ():
        settings = [
            f"{name}={getattr(inner, name)}" for name in _PER_REPLICA if getattr(inner, name, None)
        ]
        if settings:
            raise ValueError(
                "Expected an optimizer that does not clip or accumulate gradients, because on "
                "several devices of TensorFlow it would do so per device. Received: "
                f"{', '.join(settings)} and {replicas} devices. Train on JAX "
                "(`KERAS_BACKEND=jax`), or remove the setting."
            )


def _list_optimizers(optimizer):
    """Returns an optimizer and its inner optimizers, such as the one in a `LossScaleOptimizer`."""
    children = [*getattr(optimizer, "optimizers", ()), getattr(optimizer, "inner_optimizer", None)]
    children = [child for child in children if child is not None]
    return [optimizer, *(inner for child in children for inner in _list_optimizers(child))]


@contextlib.contextmanager
def use_each_device_separately() -> Iterator[None]:
    """Suspends the distribution of JAX, for batches that the devices cannot share equally."""
    distribution = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(distribution)


def strategy_scope(model: keras.Model) -> contextlib.AbstractContextManager:
    """Returns the scope in which to create the variables of a model."""
    strategy = getattr(model, "distribute_strategy", None)
    return contextlib.nullcontext() if strategy is None else strategy.scope()
