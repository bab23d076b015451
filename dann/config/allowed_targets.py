"""What a config may build: a fixed list of classes and functions for each of its groups.

A config runs what it names, so a trusted package is not enough: `dann` and `keras` also hold
functions that start processes, delete files, load code and switch safety off.
"""

import inspect
from collections.abc import Callable
from typing import Any

GROUPS = (
    "data",
    "network",
    "method",
    "schedule",
    "optimizer",
    "callbacks",
    "augmentation",
    "regularizers",
)
_READERS = (
    "csv_table",
    "digits_to_photos",
    "image_folder",
    "mnist_to_mnist_m",
    "npz",
    "tfds_pair",
)
# Without those that run code or a saved graph, call a function, or send logs to a server.
_LEFT_OUT = {
    "FlaxLayer",
    "JaxLayer",
    "Lambda",
    "TFSMLayer",
    "TorchModuleWrapper",
    "LambdaCallback",
    "RemoteMonitor",
}


def allowed(group: str) -> list[Callable]:
    """Returns the classes and functions that one group of the config may name.

    They are the readers for `data`; elsewhere Keras's public classes of the kinds that the group
    needs, those of this package that are made from the same kinds, and the functions of
    `dann.networks` for `network`.

    Args:
        group: One of `GROUPS`.
    """
    from dann import data, networks

    if group == "data":
        return [getattr(data, name) for name in _READERS]
    kinds = _kinds()[group]
    found = [thing for kind in kinds for thing in (*_of_keras(kind), *_subclasses(kind))]
    if group == "network":
        found += [thing for thing in vars(networks).values() if inspect.isfunction(thing)]
    return found


def _kinds() -> dict[str, tuple[type, ...]]:
    import keras

    from dann.adaptation import AdversarialModel, Regularizer
    from dann.schedules import StrengthSchedule

    schedules = StrengthSchedule, keras.optimizers.schedules.LearningRateSchedule
    parts = (
        keras.layers.Layer,
        keras.initializers.Initializer,
        keras.regularizers.Regularizer,
        keras.constraints.Constraint,
    )
    return {
        "network": parts,
        "method": (AdversarialModel, keras.losses.Loss, *schedules, *parts),
        "schedule": schedules,
        "optimizer": (keras.optimizers.Optimizer, *schedules),
        "callbacks": (keras.callbacks.Callback, *schedules),
        "augmentation": parts,
        "regularizers": (Regularizer, *schedules),
    }


def _of_keras(kind: type) -> list[Any]:
    """The public classes of Keras that are of a kind."""
    import keras

    modules = (
        keras,
        keras.layers,
        keras.initializers,
        keras.regularizers,
        keras.constraints,
        keras.losses,
        keras.optimizers,
        keras.optimizers.schedules,
        keras.callbacks,
    )
    return [
        thing
        for module in modules
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and issubclass(thing, kind) and name not in _LEFT_OUT
    ]


def _subclasses(kind: type) -> list[Any]:
    """The classes of this package that are made from a kind, those that no room exports too."""
    found = []
    for one in kind.__subclasses__():
        found += [one, *_subclasses(one)]
    return [one for one in found if one.__module__.startswith("dann.")]
