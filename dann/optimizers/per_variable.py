import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras


# Keras 3.16 extends `MultiOptimizer`. If it restores the optimizer of each variable without paths,
# `PerVariable` only needs its rules.
class _OptimizerByVariable(keras.optimizers.OptimizerMap):
    """A map from variables to optimizers that looks variables up by identity, not by path."""

    def __init__(self, default_optimizer, optimizers):
        super().__init__(default_optimizer, optimizers)
        self.assigned = {}

    def __call__(self, variable):
        return self.assigned[id(variable)]


@keras.saving.register_keras_serializable("dann")
class PerVariable(keras.optimizers.MultiOptimizer):
    """Trains some variables with one optimizer and the rest with another.

    The first rule that matches a variable selects its optimizer. Variables that match no rule use
    `default_optimizer`. Each optimizer has its own learning rate or schedule, clipping
    (`global_clipnorm` limits the norm over the variables of that optimizer), moving averages of the
    weights, and gradient accumulation.

    The rules are applied once, when `build` receives the variables. Afterwards, and in a saved
    model, each variable is identified by its position among the trainable variables, because the
    paths that `keras.optimizers.OptimizerMap` uses change when a model is loaded.

    Args:
        optimizers: The optimizers by rule. A rule is `"binary"`, for the kernels of binary layers,
            or any other string, a regular expression that is searched for in the variable's path.
        default_optimizer: Optimizer of all other variables.
        optimizer_indices: For each trainable variable, in order, the index of its optimizer; the
            default optimizer has the last index. The keys of `optimizers` are then ignored except
            as names. Defaults to `None`: the rules select the optimizers.
        loss_scale_factor: Loss scale factor of all optimizers; see Keras's optimizers.
        name: Name of the optimizer.

    Raises:
        TypeError: If `optimizers` does not map strings to Keras optimizers.
        ValueError: In `build`, if a rule matches no variable that an earlier rule did not match, or
            if `optimizer_indices` does not have one index per variable.

    Example:

    >>> import keras
    >>> from dann.optimizers import Bop, PerVariable
    >>> optimizer = PerVariable({"binary": Bop()}, default_optimizer=keras.optimizers.Adam(1e-3))
    >>> [type(inner).__name__ for inner in optimizer.optimizers]
    ['Bop', 'Adam']

    Reference:
        - [Helwegen et al., 2019](https://arxiv.org/abs/1906.02107), section 5: Bop for the binary
          weights, Adam for all others.
    """

    def __init__(
        self,
        optimizers: Mapping[str, keras.optimizers.Optimizer],
        default_optimizer: keras.optimizers.Optimizer,
        optimizer_indices: Sequence[int] | None = None,
        loss_scale_factor: float | None = None,
        name: str = "per_variable",
    ):
        for rule, optimizer in optimizers.items():
            if not (isinstance(rule, str) and isinstance(optimizer, keras.optimizers.Optimizer)):
                raise TypeError(
                    "Expected `optimizers` to map strings to Keras optimizers. "
                    f"Received: {{{rule!r}: {optimizer!r}}}"
                )
        by_variable = _OptimizerByVariable(default_optimizer, dict(optimizers))
        super().__init__(by_variable, loss_scale_factor, name)
        self._by_variable = by_variable
        self._parts = list(self.optimizers)  # `tf.train.Checkpoint` restores only attributes
        self.rules = tuple(optimizers)
        self.optimizer_indices = None if optimizer_indices is None else tuple(optimizer_indices)

    def build(self, var_list):
        if self.built:
            return
        if self.optimizer_indices is None:
            self.optimizer_indices = tuple(map(self._find_optimizer, var_list))
            if unused := set(range(len(self.rules))) - set(self.optimizer_indices):
                raise ValueError(
                    "Expected each rule to match a variable that no earlier rule matched. "
                    f"Received: {self.rules[min(unused)]!r}, which matches none of "
                    f"{[variable.path for variable in var_list]}"
                )
        _check_count(len(self.optimizer_indices), var_list)
        optimizers = [*self._by_variable.values(), self._by_variable.default_optimizer]
        for variable, index in zip(var_list, self.optimizer_indices, strict=True):
            self._by_variable.assigned[id(variable)] = optimizers[index]
        super().build(var_list)

    def apply(self, grads, trainable_variables=None):
        if self.built:
            _check_count(len(self._by_variable.assigned), grads)
        super().apply(grads, trainable_variables)

    def finalize_variable_values(self, var_list):
        _check_count(len(self._by_variable.assigned), var_list)
        super().finalize_variable_values(var_list)

    def _find_optimizer(self, variable):
        """Returns the index of the first rule that matches, or of the default optimizer."""
        for index, rule in enumerate(self.rules):
            if is_binary(variable) if rule == "binary" else re.search(rule, variable.path):
                return index
        return len(self.rules)

    def get_config(self):
        serialize, indices = keras.saving.serialize_keras_object, self.optimizer_indices
        return {
            # Pairs, because the order of the rules matters and JSON objects have none.
            "optimizers": [[rule, serialize(inner)] for rule, inner in self._by_variable.items()],
            "default_optimizer": serialize(self._by_variable.default_optimizer),
            "optimizer_indices": None if indices is None else list(indices),
            "loss_scale_factor": self.loss_scale_factor,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        def deserialize(optimizer):
            return keras.saving.deserialize_keras_object(optimizer, custom_objects=custom_objects)

        optimizers = {rule: deserialize(inner) for rule, inner in config["optimizers"]}
        default = deserialize(config["default_optimizer"])
        return cls(**{**config, "optimizers": optimizers, "default_optimizer": default})


def _check_count(expected, variables):
    """Raises a `ValueError` unless the optimizer was built for as many variables."""
    if len(variables) != expected:
        raise ValueError(
            f"Expected the {expected} trainable variables that the optimizer was built for. "
            f"Received: {len(variables)}. Compile with a new optimizer after a change of "
            "`trainable`"
        )


def is_binary(variable: Any) -> bool:
    """Returns whether a variable is a 1-bit kernel, which its layer marks as `binary`."""
    return bool(getattr(variable, "binary", False))
