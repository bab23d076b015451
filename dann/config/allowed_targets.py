"""The classes and functions that each group of a config may name.

Whatever a config names is called, so it is not enough to allow whole packages: `dann` and `keras`
also contain functions that start processes, delete files, load code or switch off safe mode.
"""

import inspect
from collections.abc import Callable
from typing import Any

GROUPS = (  # in the order of their checks: a method refers to its schedule
    "data",
    "network",
    "schedule",
    "method",
    "optimizer",
    "callbacks",
    "augmentation",
    "regularizers",
)
# Classes that run code or a saved graph, call a function, or send logs to a server.
LEFT_OUT = {
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

    These are what this package registers or exports, and Keras's public classes, of the kinds that
    the group needs.

    Args:
        group: One of `GROUPS`.
    """
    from dann import networks
    from dann.adaptation import METHODS, REGULARIZERS
    from dann.data import READERS

    if group == "data":
        return list(READERS.values())
    found = _public_classes(_kinds()[group])
    found += {"method": METHODS, "regularizers": REGULARIZERS}.get(group, {}).values()
    if group == "network":
        exported = [getattr(networks, name) for name in networks.__all__]
        found += [thing for thing in exported if inspect.isfunction(thing)]
    return found


def _kinds() -> dict[str, tuple[type, ...]]:
    """The base classes of what a group may name, apart from what a registry holds."""
    import keras

    from dann.gradients.estimators import Estimator
    from dann.schedules import StrengthSchedule

    schedules = StrengthSchedule, keras.optimizers.schedules.LearningRateSchedule
    parts = (
        keras.layers.Layer,
        keras.initializers.Initializer,
        keras.regularizers.Regularizer,
        keras.constraints.Constraint,
    )
    return {
        "network": (Estimator, *parts),
        "method": (keras.losses.Loss, *schedules, *parts),
        "schedule": schedules,
        "optimizer": (keras.optimizers.Optimizer, *schedules),
        "callbacks": (keras.callbacks.Callback, *schedules),
        "augmentation": parts,
        "regularizers": schedules,
    }


def _public_classes(kinds: tuple[type, ...]) -> list[Any]:
    import keras

    from dann import diagnostics, layers, optimizers, schedules
    from dann.gradients import estimators

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
        diagnostics,
        estimators,
        layers,
        optimizers,
        schedules,
    )
    return [
        thing
        for module in modules
        for name, thing in inspect.getmembers(module)
        if inspect.isclass(thing) and issubclass(thing, kinds) and name not in LEFT_OUT
    ]
