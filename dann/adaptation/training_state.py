"""What a training needs to go on besides weights and optimizer."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np


def seeds_of(model: keras.Model) -> list[Any]:
    """Returns the states of all random generators of a model and its layers, in a fixed order."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def save_training_state(model: keras.Model, store: Any) -> None:
    """Adds to the model's own entries in a file what Keras leaves out."""
    for number, seed in enumerate(values_of(seeds_of(model))):
        store[f"seed_{number}"] = seed


def load_training_state(model: keras.Model, store: Any) -> None:
    """Takes back what `save_training_state` has saved; older files hold nothing of it."""
    seeds = seeds_of(model)
    saved = [key for key in store.keys() if key.startswith("seed_")]  # noqa: SIM118
    if len(saved) != len(seeds):  # such as the weights of a network with other dropout
        return
    for number, seed in enumerate(seeds):
        seed.assign(store[f"seed_{number}"])


def values_of(variables: Sequence[Any]) -> list[np.ndarray]:
    """Returns copies of the values of variables."""
    return [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]


def averages_weights(optimizer: Any) -> bool:
    """Returns whether a training ends with moving averages of the weights (`use_ema=True`)."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of a loss scaling
    return any(getattr(one, "use_ema", False) for one in getattr(inner, "optimizers", [inner]))


def build_all(model: keras.Model, pairs: Any) -> None:
    """Creates the variables that else the first step would create, so that they can be loaded."""
    model.make_train_function()  # of a `PairClassifier`, it creates all but what layers lack
    metrics_built = all(getattr(metric, "built", True) for metric in model.metrics)
    if metrics_built and model.optimizer.built:
        return
    batch = pairs[0] if hasattr(pairs, "__getitem__") else next(iter(pairs))
    model._symbolic_build(data_batch=batch)


def makes_weights(layer: keras.Layer) -> bool:
    """Returns whether a layer may create weights at its first call."""
    makes_none = type(layer).build is keras.layers.Layer.build
    return not (layer.built or makes_none or isinstance(layer, keras.Sequential))
