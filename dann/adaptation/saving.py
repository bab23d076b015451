"""What a model's file holds: the constructor's arguments, and what Keras leaves out."""

from typing import Any

import keras
import numpy as np


def serialized(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns a constructor's arguments as values for a config."""
    values = {key: keras.saving.serialize_keras_object(one) for key, one in arguments.items()}
    # Keras shows the config where it does not find the class.
    return {"load_after": "import dann", **values}


def deserialized(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor from a config."""
    return {
        key: keras.saving.deserialize_keras_object(value)
        if isinstance(value, dict | list)  # a text may be the name of a custom object
        else value
        for key, value in config.items()
        if key != "load_after"
    }


def seeds_of(model: keras.Model) -> list[Any]:
    """Returns the states of a model's random generators, which Keras leaves out of files."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def save_state(model: keras.Model, store: Any) -> None:
    """Adds the seeds, and whether labels were several an example, to the model's own entries."""
    for number, seed in enumerate(seeds_of(model)):
        store[f"seed_{number}"] = keras.ops.convert_to_numpy(seed)
    store["several_labels"] = np.array(getattr(model, "is_multi_label", False))


def load_state(model: keras.Model, store: Any) -> None:
    """Restores what `save_state` saved; no seeds of a network with other generators."""
    if "several_labels" in store.keys():  # noqa: SIM118
        model.is_multi_label = bool(np.asarray(store["several_labels"]))
    seeds = seeds_of(model)
    names = [f"seed_{number}" for number in range(len(seeds))]
    if set(names) == {name for name in store.keys() if name.startswith("seed_")}:  # noqa: SIM118
        for seed, name in zip(seeds, names, strict=True):
            seed.assign(store[name])
