"""How Keras's `fit` and `evaluate` read pairs."""

import contextlib
from collections.abc import Callable
from typing import Any

import keras

from dann.adaptation.labels import check_range
from dann.adaptation.replicas import (
    check_optimizer,
    devices_of,
    each_device_alone,
    replicas_of,
    strategy_scope,
)
from dann.data.pairs import Pairs
from dann.data.tensorflow_pairs import in_tensorflow


def fit_pairs(model: Any, fit: Callable[..., Any], x: Any, y: Any, *args: Any, **kwargs) -> Any:
    """Runs Keras's `fit`; on `Pairs` it moves their `start` on. Returns the history."""
    check_range(x, y, model)
    if not isinstance(x, Pairs):
        return fit(x, y, *args, **kwargs)
    count = x.num_batches
    steps = kwargs.get("steps_per_epoch") or count
    if steps is None:
        raise ValueError(
            "Endless pairs need a number of steps. Received: `fit` without `steps_per_epoch`"
        )
    # Keras reads batches beforehand, so that pairs with an end would lose their place.
    moves_on = count and x.by_index and count % model.steps_per_execution == 0
    batches = x.endless() if moves_on else x
    ordered: Any = batches
    if batches.num_batches is None and batches.by_index and devices_of(model) == 1:
        ordered = in_tensorflow(batches) or batches
    settings = {"shuffle": False, **kwargs}
    if moves_on:
        settings["steps_per_epoch"] = steps
    with split_over_devices(model, batches):
        history = fit(ordered, y, *args, **settings)
    if moves_on:
        x.start += steps * len(history.epoch)
    return history


def evaluate_pairs(
    model: Any, evaluate: Callable[..., Any], x: Any, y: Any, *args: Any, **kwargs
) -> Any:
    """Runs Keras's `evaluate`; the `start` of `Pairs` stays as it is."""
    check_range(x, y, model)
    with each_device_alone():
        if not isinstance(x, Pairs):
            return evaluate(x, y, *args, **kwargs)
        steps = kwargs.get("steps") or x.num_batches
        if steps is None:
            raise ValueError(
                "Endless pairs need a number of steps. Received: `evaluate` without `steps`"
            )
        if x.num_batches and x.by_index:
            kwargs["steps"] = steps
            x = x.endless()
        with split_over_devices(model, x):
            return evaluate(x, y, *args, **kwargs)


def split_over_devices(model: keras.Model, pairs: Pairs) -> contextlib.AbstractContextManager:
    """Prepares pairs for the devices that share each batch."""
    return pairs.split_over(devices_of(model), replicas_of(model))


def build_training(model: Any) -> None:
    """Makes the optimizer's and the metrics' variables, or TensorFlow traces the step twice."""
    check_optimizer(model.optimizer, replicas_of(model))
    metrics = model._compile_metrics
    with strategy_scope(model):
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        sparse = isinstance(model.loss, keras.losses.SparseCategoricalCrossentropy)
        if sparse and metrics is not None and not metrics.built:
            logits = keras.KerasTensor((None, model.num_classes))
            metrics.build(keras.KerasTensor((None,)), logits)
