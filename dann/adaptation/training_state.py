"""What a training needs to resume besides weights and optimizer."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from dann.adaptation.replicas import strategy_scope


def seeds_of(model: keras.Model) -> list[Any]:
    """Returns the states of all random generators of a model and its layers, in a fixed order."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def save_training_state(model: keras.Model, store: Any) -> None:
    """Adds to the model's own entries in a file what Keras leaves out."""
    parts = {"seed": values_of(seeds_of(model)), "trained": getattr(model, "_trained", ())}
    for name, values in parts.items():
        for number, value in enumerate(values):
            store[f"{name}_{number}"] = value


def load_training_state(model: keras.Model, store: Any) -> None:
    """Restores what `save_training_state` saved; older files hold none of it."""
    seeds, count = seeds_of(model), len(model.trainable_variables)
    saved = _numbered(store, "seed")
    if len(saved) == len(seeds):  # not so for the weights of a network with other dropout
        for seed, value in zip(seeds, saved, strict=True):
            seed.assign(value)
    trained = _numbered(store, "trained")
    model._trained = tuple(trained) if len(trained) == count else ()


def _numbered(store, name):
    count = sum(key.startswith(f"{name}_") for key in store.keys())  # noqa: SIM118
    return [np.array(store[f"{name}_{number}"]) for number in range(count)]


class KeepTrained(keras.callbacks.Callback):
    """Keeps the weights that train, where `fit` ends by putting their averages in their place."""

    def on_epoch_end(self, epoch, logs=None):
        self.model._trained = tuple(values_of(self.model.trainable_variables))


def put_trained_back(model: keras.Model) -> None:
    """Gives a model the weights that train, if its weights still are the averages that `fit` left.

    So two calls of `fit` do what one does, in one process and with a file between them.
    """
    trained, model._trained = getattr(model, "_trained", ()), ()
    weights = model.trainable_variables
    if not (trained and model.optimizer.built and len(trained) == len(weights)):
        return
    now = values_of(weights)
    put_averages(model)
    averages = values_of(weights)
    if not all(map(np.array_equal, now, averages)):
        trained = now  # somebody has set them since
    for variable, value in zip(weights, trained, strict=True):
        variable.assign(value)


def put_averages(model: Any) -> None:
    """Puts the optimizer's moving averages in the place of the weights."""
    model.optimizer.finalize_variable_values(model.trainable_variables)
    unshare(model.trainable_variables)


def unshare(variables: Sequence[Any]) -> None:
    """Gives each variable memory of its own.

    On JAX a weight shares that of the average that was assigned to it, and a compiled step or
    evaluation deletes what it gets, the average with it.
    """
    for variable, value in zip(variables, values_of(variables), strict=True):
        variable.assign(value)


def values_of(variables: Sequence[Any]) -> list[np.ndarray]:
    """Returns copies of the values of variables."""
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


def steps_taken(model: Any) -> int:
    """Returns how many steps the optimizer of a compiled model has taken, on one device or many."""
    return int(values_of([model.optimizer.iterations])[0])


def averages_weights(optimizer: Any) -> bool:
    """Returns whether a training ends with moving averages of the weights (`use_ema=True`)."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of a loss scaling
    return any(getattr(one, "use_ema", False) for one in getattr(inner, "optimizers", [inner]))


def build_all(model: keras.Model, pairs: Any) -> None:
    """Creates all variables now, not in the first step, so that their values can be loaded."""
    model.make_train_function()  # of a `PairClassifier`, it creates all but what layers lack
    metrics_built = all(getattr(metric, "built", True) for metric in model.metrics)
    if metrics_built and model.optimizer.built:
        return
    batch = pairs[0] if hasattr(pairs, "__getitem__") else next(iter(pairs))
    with strategy_scope(model):
        model._symbolic_build(data_batch=batch)


def makes_weights(layer: keras.Layer) -> bool:
    """Returns whether a layer may create weights at its first call."""
    makes_none = type(layer).build is keras.layers.Layer.build
    return not (layer.built or makes_none or isinstance(layer, keras.Sequential))
