"""What one of several JAX processes computes alone, and how the others get it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from dann.adaptation.replicas import each_device_alone
from dann.adaptation.shared_weights import SplitWeights, variables_of


class State:
    """The state of a model within `alone`: whether it has changed, and its values.

    Args:
        variables: All variables of the model.
        values: What they hold at the start, on one device.
    """

    def __init__(self, variables: list[Any], values: list[Any]):
        self._variables, self._before = variables, values

    @property
    def changed(self) -> bool:
        """Whether a variable has been assigned to."""
        pairs = zip(self._variables, self._before, strict=True)
        return any(variable._value is not value for variable, value in pairs)

    def values(self) -> list[np.ndarray]:
        """Returns the values of all variables."""
        return [np.asarray(variable._value) for variable in self._variables]


@contextlib.contextmanager
def alone(model: keras.Model) -> Iterator[State]:
    """Lets one process compute with a model that several train; JAX would wait for the others.

    Within the block each variable is an array of this process's first device, or of its first group
    of devices that share the weights. At the end all are again what they were: what has been
    assigned to them goes with `share` or is lost.
    """
    state = getattr(model, "_jax_state", None)
    training = bool(state) and not model._jax_state_synced
    variables = variables_of(model)
    of_steps = _by_variable(model, state) if training else {}
    kept: list[tuple[Any, Any, Any]] = [
        (variable, of_steps.get(id(variable), variable._value), variable._layout)
        for variable in variables
    ]
    for variable, _, _ in kept:
        variable._layout = None
        variable._value = _local(variable._value)
    if training:  # the variables are empty within an epoch
        model._jax_state = keras.tree.map_structure(_local, state)
    try:
        with each_device_alone():
            yield State(variables, [variable._value for variable in variables])
    finally:
        unused = training and not model._jax_state_synced
        for variable, value, layout in kept:
            variable._layout = layout
            if unused:
                variable._value = None
            elif value.is_deleted():  # an evaluation took its memory and left an equal value
                variable._value = _on_all(np.asarray(variable._value), variable)
            else:
                variable._value = value
        if training:
            model._jax_state = state if unused else None


def share(model: keras.Model, values: list[np.ndarray] | None) -> None:
    """Gives the variables of a model the values of process 0, in all processes at once.

    Args:
        values: Those of all variables, in process 0; `None` elsewhere.
    """
    from jax.experimental import multihost_utils  # pyright: ignore[reportMissingImports]

    variables = variables_of(model)
    forms = [(variable.value.shape, np.dtype(variable.value.dtype)) for variable in variables]
    sizes = [int(np.prod(shape)) * dtype.itemsize for shape, dtype in forms]
    mine = np.zeros(sum(sizes), np.uint8)  # as bytes they stay as they are, whatever their type
    if values is not None:
        pieces = [np.frombuffer(value.tobytes(), np.uint8) for value in values]
        mine = np.concatenate(pieces)
    found = np.asarray(multihost_utils.broadcast_one_to_all(mine, is_source=values is not None))
    pieces = np.split(found, np.cumsum(sizes)[:-1])
    for variable, piece, (shape, dtype) in zip(variables, pieces, forms, strict=True):
        variable._value = _on_all(np.frombuffer(piece.tobytes(), dtype).reshape(shape), variable)


def _by_variable(model, state):
    """What the steps of an epoch hold of each variable, by its id."""
    groups = {
        "trainable_variables": model.trainable_variables,
        "non_trainable_variables": model.non_trainable_variables,
        "optimizer_variables": model.optimizer.variables,
        "metrics_variables": model.metrics_variables,
    }
    return {
        id(variable): value
        for name, group in groups.items()
        for variable, value in zip(group, state.get(name) or (), strict=False)
    }


def _local(value):
    """The array as this process's first device or group holds it."""
    distribution = keras.distribution.distribution()
    if isinstance(distribution, SplitWeights):
        return distribution.of_first_group(value)
    return value if value is None else value.addressable_data(0)


def _on_all(value, variable):
    import jax  # pyright: ignore[reportMissingImports]

    layout = variable._layout
    layout = getattr(layout, "backend_layout", layout)
    return jax.make_array_from_process_local_data(layout, value)
