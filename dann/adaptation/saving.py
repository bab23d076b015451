"""Configs and files of models: constructor arguments, and state that Keras does not save."""

from typing import Any

import keras
import numpy as np


def serialize_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor as values of a config."""
    values = {key: keras.saving.serialize_keras_object(value) for key, value in arguments.items()}
    # Keras prints the config if it does not find the class, so this is a hint.
    return {"load_after": "import dann", **values}


def deserialize_arguments(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor from a config."""
    return {
        key: keras.saving.deserialize_keras_object(value)
        if isinstance(value, dict | list)  # Keras would read a string as a custom object's name
        else value
        for key, value in config.items()
        if key != "load_after"
    }


def _random_states(model):
    """Returns the states of a model's random generators, which Keras does not save."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def save_state(model: keras.Model, store: Any) -> None:
    """Adds random states and whether the labels were multi-label to the entries of a model."""
    for number, state in enumerate(_random_states(model)):
        store[f"seed_{number}"] = keras.ops.convert_to_numpy(state)
    store["several_labels"] = np.array(getattr(model, "is_multi_label", False))


def load_state(model: keras.Model, store: Any) -> None:
    """Restores the state from `save_state`; skips random states if their number differs."""
    if "several_labels" in store.keys():  # noqa: SIM118
        model.is_multi_label = bool(np.asarray(store["several_labels"]))
    states = _random_states(model)
    names = [f"seed_{number}" for number in range(len(states))]
    if set(names) == {name for name in store.keys() if name.startswith("seed_")}:  # noqa: SIM118
        for state, name in zip(states, names, strict=True):
            state.assign(store[name])
