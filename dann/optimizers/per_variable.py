import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

Rule = str | Callable[[Any], bool]


@keras.saving.register_keras_serializable("dann")
class PerVariable(keras.optimizers.MultiOptimizer):
    """Trains some variables with one optimizer and the rest with another.

    Each variable goes to the first rule that matches it, or to the rest. Each part keeps its own
    learning rate or schedule, clipping (`global_clipnorm` limits the norm of the part's gradient
    alone), moving averages of the weights, and accumulation of gradients.

    The optimizer applies the rules once, when it first gets the variables. From then on, and in a
    saved model, it knows variables by their place among the trainable ones, because their paths,
    which `keras.optimizers.OptimizerMap` uses, change when a model is loaded. So it also keeps the
    variables that a part excludes from its weight decay, which Keras's optimizers do not.

    Args:
        optimizers: The optimizers by rule. A rule is `"binary"`, for the kernels of binary layers;
            any other string, a regular expression to find in the variable's path; or a function
            that takes a variable and returns whether it matches.
        rest: Optimizer of all other variables.
        places: For each trainable variable, in order, the number of its optimizer; the rest has
            the last number. The rules are then only names. Defaults to `None`: the rules decide.
        loss_scale_factor: Factor of the loss for all parts; see Keras's optimizers.
        name: Name of the optimizer.
        undecayed: Places of the variables that every part excludes from its weight decay. Defaults
            to `None`: those that the parts exclude themselves.

    Raises:
        TypeError: If an optimizer is not a single Keras optimizer, or a rule is neither a string
            nor a function.
        ValueError: If there are no rules; if two rules share an optimizer; if a part has a
            `loss_scale_factor` of its own; if a rule matches no variable; if `places` has another
            length than the trainable variables; or if it is saved with functions as rules before
            it got the variables.

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
        optimizers: Mapping[Rule, keras.optimizers.Optimizer],
        rest: keras.optimizers.Optimizer,
        places: Sequence[int] | None = None,
        loss_scale_factor: float | None = None,
        name: str = "per_variable",
        undecayed: Sequence[int] | None = None,
    ):
        _check(optimizers, rest, loss_scale_factor)
        super().__init__(self._optimizer_of, name=name)
        # Set here because callbacks look at the parts before the first step.
        self._inner_optimizers.extend([*optimizers.values(), rest])
        self._track_parts()
        self.loss_scale_factor = loss_scale_factor
        self.rules = tuple(optimizers)
        self.places = None if places is None else tuple(places)
        self.undecayed = None if undecayed is None else tuple(undecayed)
        self._place_of = {}

    def _track_parts(self):
        """Lets `tf.train.Checkpoint` find the parts; Keras's own files do not need it."""
        if hasattr(self, "_track_trackable"):
            for place, part in enumerate(self._inner_optimizers):
                self._track_trackable(part, f"part_{place}", overwrite=True)

    def _optimizer_of(self, variable):
        return self.optimizers[self._place_of[self._var_key(variable)]]

    def build(self, var_list):
        if self.built:
            return
        if self.places is None:
            self.places = self._places_by_rule(var_list)
        _check_count(var_list, self.places)
        self._place_of = {
            self._var_key(variable): place
            for variable, place in zip(var_list, self.places, strict=True)
        }
        self._exclude_undecayed(var_list)
        super().build(var_list)

    def _exclude_undecayed(self, var_list):
        if self.undecayed is None:
            self.undecayed = tuple(
                place
                for place, variable in enumerate(var_list)
                if not self._optimizer_of(variable)._use_weight_decay(variable)
            )
        elif self.undecayed:
            excluded = [var_list[place] for place in self.undecayed]
            for part in self.optimizers:
                part.exclude_from_weight_decay(var_list=excluded)

    def apply(self, grads, trainable_variables=None):
        if self.built and trainable_variables is not None:
            _check_count(trainable_variables, self.places)
        super().apply(grads, trainable_variables)

    def _places_by_rule(self, var_list):
        rest = len(self.rules)
        places = tuple(
            next((place for place, rule in enumerate(self.rules) if _holds(rule, variable)), rest)
            for variable in var_list
        )
        for place, rule in enumerate(self.rules):
            if place not in places:
                raise ValueError(
                    "Each rule must match a variable that no earlier rule matched. Received: "
                    f"{rule!r}, which matches none of {[v.path for v in var_list]}"
                )
        return places

    def get_config(self):
        functions = [rule for rule in self.rules if not isinstance(rule, str)]
        if functions and self.places is None:
            raise ValueError(
                "Functions cannot be saved: save the model after its first step, or use strings "
                f"as rules. Received: {functions[0]}"
            )
        names = [
            rule if isinstance(rule, str) else f"function {place}"
            for place, rule in enumerate(self.rules)
        ]
        *optimizers, rest = map(keras.saving.serialize_keras_object, self.optimizers)
        return {
            # Pairs, because their order counts.
            "optimizers": [list(pair) for pair in zip(names, optimizers, strict=True)],
            "rest": rest,
            "places": None if self.places is None else list(self.places),
            "loss_scale_factor": self.loss_scale_factor,
            "name": self.name,
            "undecayed": None if self.undecayed is None else list(self.undecayed),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        def restored(part):
            return keras.saving.deserialize_keras_object(part, custom_objects=custom_objects)

        optimizers = {name: restored(part) for name, part in config["optimizers"]}
        return cls(**{**config, "optimizers": optimizers, "rest": restored(config["rest"])})


def is_binary(variable: Any) -> bool:
    """Returns whether a variable is a kernel of one bit, which its layer marks as `binary`."""
    return bool(getattr(variable, "binary", False))


def is_composed(optimizer: Any) -> bool:
    """Returns whether an optimizer consists of others."""
    composed = (keras.optimizers.MultiOptimizer, keras.optimizers.LossScaleOptimizer)
    return isinstance(optimizer, composed)


def _check_count(variables, places):
    if len(variables) != len(places):
        raise ValueError(
            "The optimizer trains the variables that it first got; if layers were frozen or "
            f"unfrozen since, make a new one. Received: {len(variables)} trainable "
            f"variables instead of {len(places)}"
        )


def _holds(rule, variable):
    if callable(rule):
        return bool(rule(variable))
    return is_binary(variable) if rule == "binary" else bool(re.search(rule, variable.path))


def _check(optimizers, rest, loss_scale_factor):
    if not optimizers:
        raise ValueError("Argument `optimizers` must hold at least one rule. Received: none")
    parts = [*optimizers.values(), rest]
    for part in parts:
        if not isinstance(part, keras.optimizers.Optimizer) or is_composed(part):
            raise TypeError(
                "Each part must be a single Keras optimizer; `compile` wraps the whole if the "
                f"precision needs it. Received: {part!r}"
            )
        if part.loss_scale_factor not in (None, loss_scale_factor):
            raise ValueError(
                "Give `loss_scale_factor` to `PerVariable`, not to a part: the loss has one factor."
                f" Received: {part.name} with loss_scale_factor={part.loss_scale_factor}"
            )
    if len({id(part) for part in parts}) < len(parts):
        raise ValueError(
            "Each rule, and the rest, must have an optimizer of its own. Received: one of them "
            f"twice among {[part.name for part in parts]}"
        )
    for rule in optimizers:
        wanted = "A rule must be 'binary', a regular expression or a function of a variable. "
        if not isinstance(rule, str) and not callable(rule):
            raise TypeError(f"{wanted}Received: {rule!r}")
        try:
            re.compile(rule if isinstance(rule, str) else "")
        except re.error as error:
            raise ValueError(f"{wanted}Received: {rule!r} ({error})") from error
