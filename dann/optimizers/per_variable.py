import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras


class _ByVariable(keras.optimizers.OptimizerMap):
    """The optimizer of each variable, which is known by itself."""

    def __init__(self, rest, optimizers):
        super().__init__(rest, optimizers)
        self.found = {}

    def __call__(self, variable):
        return self.found[id(variable)]


@keras.saving.register_keras_serializable("dann")
class PerVariable(keras.optimizers.MultiOptimizer):
    """Trains some variables with one optimizer and the rest with another.

    Each variable goes to the first rule that matches it, or to the rest. Each part keeps its own
    learning rate or schedule, clipping (`global_clipnorm` limits the norm of the part's gradient
    alone), moving averages of the weights, and accumulation of gradients.

    The optimizer applies the rules once, when it first gets the variables. From then on, and in a
    saved model, it knows variables by their place among the trainable ones, because their paths,
    which `keras.optimizers.OptimizerMap` uses, change when a model is loaded.

    Args:
        optimizers: The optimizers by rule. A rule is `"binary"`, for the kernels of binary layers,
            or any other string, a regular expression to find in the variable's path.
        rest: Optimizer of all other variables.
        places: For each trainable variable, in order, the number of its optimizer; the rest has
            the last number. The rules are then only names. Defaults to `None`: the rules decide.
        loss_scale_factor: Factor of the loss for all parts; see Keras's optimizers.
        name: Name of the optimizer.

    Raises:
        ValueError: When it gets the variables, if a rule matches none that no earlier rule matched,
            or `places` has another length.

    Example:

    >>> import keras
    >>> from dann.optimizers import Bop, PerVariable
    >>> optimizer = PerVariable({"binary": Bop()}, rest=keras.optimizers.Adam(1e-3))
    >>> [type(part).__name__ for part in optimizer.optimizers]
    ['Bop', 'Adam']

    Reference:
        - [Helwegen et al., 2019](https://arxiv.org/abs/1906.02107), section 5: binary weights by
          one optimizer, the rest by Adam.
    """

    def __init__(
        self,
        optimizers: Mapping[str, keras.optimizers.Optimizer],
        rest: keras.optimizers.Optimizer,
        places: Sequence[int] | None = None,
        loss_scale_factor: float | None = None,
        name: str = "per_variable",
    ):
        by_variable = _ByVariable(rest, dict(optimizers))
        super().__init__(by_variable, loss_scale_factor, name)
        self._by_variable = by_variable
        self.rules = tuple(optimizers)
        self.places = None if places is None else tuple(places)

    def build(self, var_list):
        if self.built:
            return
        if self.places is None:
            self.places = tuple(self._place(variable) for variable in var_list)
            if unused := set(range(len(self.rules))) - set(self.places):
                raise ValueError(
                    "Each rule must match a variable that no earlier rule matched. Received: "
                    f"{self.rules[min(unused)]!r}, which matches none of "
                    f"{[variable.path for variable in var_list]}"
                )
        parts = [*self._by_variable.values(), self._by_variable.default_optimizer]
        for variable, place in zip(var_list, self.places, strict=True):
            self._by_variable.found[id(variable)] = parts[place]
        super().build(var_list)

    def _place(self, variable):
        """The number of the first rule that the variable matches, or of the rest."""
        matched = [place for place, rule in enumerate(self.rules) if _matches(rule, variable)]
        return min(matched, default=len(self.rules))

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            # Pairs, because their order counts.
            "optimizers": [[rule, serialize(part)] for rule, part in self._by_variable.items()],
            "rest": serialize(self._by_variable.default_optimizer),
            "places": None if self.places is None else list(self.places),
            "loss_scale_factor": self.loss_scale_factor,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        def restored(part):
            return keras.saving.deserialize_keras_object(part, custom_objects=custom_objects)

        optimizers = {rule: restored(part) for rule, part in config["optimizers"]}
        return cls(**{**config, "optimizers": optimizers, "rest": restored(config["rest"])})


def is_binary(variable: Any) -> bool:
    """Returns whether a variable is a kernel of one bit, which its layer marks as `binary`."""
    return bool(getattr(variable, "binary", False))


def _matches(rule, variable):
    return is_binary(variable) if rule == "binary" else bool(re.search(rule, variable.path))
