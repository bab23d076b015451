"""How `fit` and `evaluate` read pairs, on one device or on several.

A `tf.distribute.Strategy` runs the step once for each replica, which sees its part of a batch, and
adds the gradients up. Everywhere else, JAX with several devices included, a step sees the whole
batch and there is one replica.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import is_pair, select_parts
from dann.adaptation.labels import check_range
from dann.data.conversion import convert_strings
from dann.data.examples import Examples, check_matching_inputs
from dann.data.pairs import Pairs
from dann.data.tensorflow_pairs import as_tensorflow_dataset

# What Keras's optimizers do with the gradients before the replicas add them up.
_OF_SHARES = ("clipnorm", "global_clipnorm", "clipvalue", "gradient_accumulation_steps")


def fit_pairs(model: Any, fit: Callable[..., Any], x: Any, y: Any, *args: Any, **kwargs) -> Any:
    """Runs Keras's `fit`; on `Pairs` it moves their `start` on. Returns the history."""
    of_sklearn = isinstance(x, tuple | list) and not model.trains_on_plain_inputs
    _refuse("fit(dann.data.pair((inputs, labels), target_inputs))", of_sklearn, x, y, *args)
    check_range(x, y, model)
    if is_pair(x):
        _check_inputs(select_parts(x))
    if not isinstance(x, Pairs):
        return fit(x, y, *args, **kwargs)
    steps, batches = _endless(x, model, "steps_per_epoch", kwargs)
    ordered: Any = batches
    if count_devices(model) == 1:
        ordered = as_tensorflow_dataset(batches) or batches
    history = fit(ordered, y, *args, **{"shuffle": False, **kwargs, "steps_per_epoch": steps})
    if x.num_batches and x.is_indexed:
        x.start += steps * len(history.epoch)
    return history


def _check_inputs(parts):
    """Raises a `ValueError` for arrays with NaN, which a network may hide, or of other columns."""
    forms = {
        name: Examples({"inputs": part}, name).input_spec()
        for name, part in parts.items()
        if not any(map(ops.is_tensor, keras.tree.flatten(part)))
    }
    for name, form in forms.items():
        check_matching_inputs(next(iter(forms.values()))._replace(inputs=form.inputs), form, name)


def evaluate_pairs(
    model: Any, evaluate: Callable[..., Any], x: Any, y: Any, *args: Any, **kwargs
) -> Any:
    """Runs Keras's `evaluate`; the `start` of `Pairs` stays as it is."""
    _refuse("evaluate(inputs, labels)", isinstance(x, tuple), x, y, *args)
    check_range(x, y, model)
    with each_device_alone():
        if not isinstance(x, Pairs):
            return evaluate(convert_strings(x), y, *args, **kwargs)
        steps, batches = _endless(x, model, "steps", kwargs)
        return evaluate(batches, y, *args, **{**kwargs, "steps": steps})


def predict_inputs(predict: Callable[..., Any], x: Any, *args: Any, **kwargs) -> Any:
    """Runs Keras's `predict`, which takes the inputs of one domain."""
    _refuse("predict(inputs)", isinstance(x, Pairs) or is_pair(x), x, *args)
    with each_device_alone():
        return predict(convert_strings(x), *args, **kwargs)


def _refuse(wanted, unfit, *given):
    """Raises a `TypeError` for arguments of other packages; the third of Keras's is an integer."""
    if unfit or not isinstance(given[2] if len(given) > 2 else None, int | str | None):
        names = ", ".join(type(one).__name__ for one in given)
        raise TypeError(f"Write `{wanted}`. Received: {names}")


def _endless(pairs, model, name, given):
    """The number of steps, as Keras rounds it up, and the batches from `start` on without end.

    Keras reads batches beforehand, so that pairs with an end would lose their place.
    """
    steps = given.get(name) or pairs.num_batches
    if steps is None:
        raise ValueError(f"Endless pairs need a number of steps. Received: no `{name}`")
    pairs.check_devices(count_devices(model))
    calls = -(-steps // model.steps_per_execution)
    return calls * model.steps_per_execution, pairs.endless(count_replicas(model))


def build_training(model: Any) -> None:
    """Makes the optimizer's and the metrics' variables, or TensorFlow traces the step twice."""
    if getattr(model, "domain_head", None) is model.label_head:
        raise ValueError("`domain_head` needs weights of its own. Received: the label head itself")
    check_optimizer(model.optimizer, count_replicas(model))
    with strategy_scope(model):
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        sparse = isinstance(model.loss, keras.losses.SparseCategoricalCrossentropy)
        for metric in model.metrics if sparse else ():
            if not getattr(metric, "built", True):  # those given to `compile`, as one
                logits = keras.KerasTensor((None, model.num_classes))
                metric.build(keras.KerasTensor((None,)), logits)


def num_replicas() -> int:
    """Returns how many replicas share a batch in the current scope or step."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def share_of_replica(loss: Any) -> Any:
    """Returns what a replica descends: the mean loss of its part over the number of replicas.

    The replicas' gradients are added up, so that together they descend the mean of their losses.
    """
    count = num_replicas()
    return loss if count == 1 else ops.divide(loss, count)


def whole_of_replica(share: Any) -> Any:
    """Undoes `share_of_replica`, which Keras has applied to its own losses already."""
    count = num_replicas()
    return share if count == 1 else ops.multiply(share, count)


def mean_over_replicas(tensors: Sequence[Any]) -> list[Any]:
    """Returns the mean of each tensor over the replicas, without gradient.

    Outside of a replica's step it returns the tensors as they are.
    """
    if num_replicas() == 1:
        return list(tensors)
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None:
        return list(tensors)
    means = replica.all_reduce(tf.distribute.ReduceOp.MEAN, [ops.stop_gradient(t) for t in tensors])
    return list(means)


def count_devices(model: keras.Model) -> int:
    """Returns how many devices share each batch that a model trains on."""
    if keras.backend.backend() == "jax":
        distribution = keras.distribution.distribution()
        return 1 if distribution is None else distribution.num_model_replicas
    return count_replicas(model)


def count_replicas(model: keras.Model) -> int:
    """Returns how many replicas TensorFlow's strategy makes of a model; 1 without a strategy."""
    strategy = getattr(model, "distribute_strategy", None)
    return 1 if strategy is None else strategy.num_replicas_in_sync


def check_optimizer(optimizer: Any, replicas: int) -> None:
    """Raises an error if an optimizer would treat each replica's share as the whole gradient.

    TensorFlow adds the shares up after Keras has clipped or accumulated each, so that `n` replicas
    would clip `n` times as late as one device.

    Raises:
        ValueError: If several replicas train, and the optimizer or a part of it clips or
            accumulates.
    """
    for part in _parts(optimizer) if replicas > 1 else ():
        given = [
            f"{name}={getattr(part, name)}" for name in _OF_SHARES if getattr(part, name, None)
        ]
        if given:
            raise ValueError(
                "On several devices of TensorFlow an optimizer cannot clip or accumulate "
                "gradients, because it does so with the share of each device: train on JAX "
                "(`KERAS_BACKEND=jax`), or leave it out. Received: "
                f"{', '.join(given)} and {replicas} devices"
            )


def _parts(optimizer):
    """An optimizer and those that it holds, such as the one whose loss it scales."""
    held = [*getattr(optimizer, "optimizers", ()), getattr(optimizer, "inner_optimizer", None)]
    return [optimizer, *(part for one in held if one is not None for part in _parts(one))]


@contextlib.contextmanager
def each_device_alone() -> Iterator[None]:
    """Lets every device see all data, on JAX, which cannot split a batch that is not a multiple."""
    distribution = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(distribution)


def strategy_scope(model: keras.Model) -> contextlib.AbstractContextManager:
    """Returns the scope in which the variables of a model are made."""
    strategy = getattr(model, "distribute_strategy", None)
    return contextlib.nullcontext() if strategy is None else strategy.scope()
