"""Finds trainable variables that a function reads instead of taking them as inputs."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf
elif keras.backend.backend() == "torch":
    from torch.overrides import TorchFunctionMode  # pyright: ignore[reportMissingImports]

    class _ParameterWatch(TorchFunctionMode):
        """Records the leaf tensors with `requires_grad` that PyTorch functions receive."""

        def __init__(self, names):
            super().__init__()
            self.names = names

        def __torch_function__(self, func, types, args=(), kwargs=None):
            for x in keras.tree.flatten((args, kwargs)):
                if getattr(x, "requires_grad", False) and x.is_leaf:
                    self.names[id(x)] = f"{type(x).__name__} of shape {tuple(x.shape)}"
            return func(*args, **(kwargs or {}))


class ReadRecorder(keras.StatelessScope):
    """Scope that records the Keras variables that are read, and defers all assignments.

    Attributes:
        variables: The variables that were read, by id, because `==` would compare their values.
        updates: Deferred assignments, pairs of a variable and its new value.
    """

    def __init__(self):
        super().__init__()
        self.variables: dict[int, keras.Variable] = {}
        self.updates: list[tuple[keras.Variable, Any]] = []

    def get_current_value(self, variable):
        self.variables[id(variable)] = variable
        value, outer = super().get_current_value(variable), self.original_scope
        return outer.get_current_value(variable) if value is None and outer else value

    def add_update(self, update):
        super().add_update(update)
        self.updates.append(update)


def record_reads(function: Callable, inputs: Sequence[Any]) -> tuple[Any, dict[int, str]]:
    """Calls a function and records the trainable variables that it reads.

    A trainable variable that `function` reads, instead of taking it as an input, would silently get
    no gradient. The function finds Keras variables, `tf.Variable` and `torch.nn.Parameter`.
    Assignments to Keras variables take effect after the call.

    Args:
        function: Function of tensors.
        inputs: Arguments of the function, which do not count as read.

    Returns:
        The outputs of the function, and the names of the variables by their ids.
    """
    with ReadRecorder() as scope, _watch_variables() as watched:
        outputs = function(*inputs)
    for variable, value in scope.updates:  # such as the state of a random generator
        variable.assign(value)
    variables = scope.variables.values()
    names = {id(variable): variable.path for variable in variables if variable.trainable}
    if watched:
        # A frozen Keras variable wraps a backend variable that still counts as trainable.
        with _watch_variables() as in_keras:
            for variable in variables:
                ops.add(variable, 0)
        ignored_ids = in_keras.keys() | set(map(id, inputs))
        names.update({key: name for key, name in watched.items() if key not in ignored_ids})
    return outputs, names


@contextlib.contextmanager
def _watch_variables() -> Iterator[dict[int, str]]:
    """Yields a dict; after the block it contains the backend variables that the block read."""
    names: dict[int, str] = {}
    if keras.backend.backend() == "tensorflow":
        with tf.GradientTape() as tape:
            yield names
        variables = tape.watched_variables()
        names.update({id(v): v.name for v in variables if v.dtype.is_floating})
    elif keras.backend.backend() == "torch":
        with _ParameterWatch(names):
            yield names
    else:  # JAX has no variables of its own
        yield names


def reject_reads(names: Mapping[int, str]) -> None:
    """Raises a `ValueError` that lists the variables that `forward` reads, if there are any."""
    if names:
        raise ValueError(
            "Expected `forward` to take trainable variables as inputs, because `backward` returns "
            f"gradients of inputs only. Received: a function that reads {list(names.values())}. "
            "Write `lambda x, w: ...` and call it as `function(x, self.w)`"
        )
