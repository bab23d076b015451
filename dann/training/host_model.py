"""What is computed with a model outside of its training steps."""

import contextlib
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

_BATCH = 256


class HostModel:
    """Computes with copies of a model's variables, on one device of this process.

    The variables themselves may lie on several devices or in several processes, or be those that
    train while their averages are the result. Nothing is assigned to them.

    Args:
        model: A compiled model.
    """

    def __init__(self, model: Any):
        self.model = model
        self._networks: dict[Any, Any] = {}

    def values(self) -> dict[int, np.ndarray]:
        """Returns the values of all variables by `id(variable)`."""
        return _by_id(self.model.variables)

    def values_at_end(self) -> dict[int, np.ndarray]:
        """Returns the values that a training would end with now: averages, with `use_ema=True`."""
        weights = self.model.trainable_variables
        training = _by_id(weights)
        self.model.optimizer.finalize_variable_values(weights)
        values = self.values()
        for weight in weights:
            weight.assign(training[id(weight)])
        return values

    def predict(
        self,
        network: keras.Model,
        inputs: Any,
        values: Mapping[int, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Returns the outputs of a part of the model for inputs, in inference mode.

        Args:
            network: The classifier or another network of the model's variables.
            inputs: Array-like `(n, ...)` or a nested structure of them.
            values: What `values` or `values_at_end` returned. Defaults to `None`: the values now.

        Returns:
            Array `(n, ...)`, float64.
        """
        held = self.values() if values is None else values
        if network not in self._networks:
            self._networks[network] = _compiled(network)
        run = self._networks[network]
        count = len(keras.tree.flatten(inputs)[0])
        outputs = []
        with _on_one_device():
            trainable, other = (
                [ops.convert_to_tensor(held[id(variable)]) for variable in variables]
                for variables in (network.trainable_variables, network.non_trainable_variables)
            )
            for start in range(0, count, _BATCH):
                rows = np.arange(start, min(start + _BATCH, count))
                batch = keras.tree.map_structure(operator.itemgetter(rows), inputs)
                outputs.append(ops.convert_to_numpy(run(trainable, other, batch)))
        return np.concatenate(outputs).astype("float64")


def _compiled(network):
    """A network as a function of its trainable variables, its other variables and its inputs."""

    def run(trainable, other, inputs):
        return network.stateless_call(trainable, other, inputs, training=False)[0]

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(run, autograph=False, reduce_retracing=True)
    if keras.backend.backend() == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        return jax.jit(run)
    return run


def _on_one_device():
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax  # pyright: ignore[reportMissingImports]

    return jax.default_device(jax.local_devices()[0])


def _by_id(variables: Sequence[Any]) -> dict[int, np.ndarray]:
    return {id(variable): np.array(ops.convert_to_numpy(variable)) for variable in variables}
