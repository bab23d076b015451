"""A scope that runs a network without changing its state."""

from collections.abc import Sequence

import keras


def preserve_state(model: keras.Layer, values: Sequence[tuple] = ()) -> keras.StatelessScope:
    """Returns a scope that discards everything a model or layer assigns to its variables.

    Each scope begins with the current seeds, so two passes in two scopes draw the same noise. The
    scope collects the losses that layers add.

    Args:
        model: The model or layer.
        values: Pairs of a variable and the tensor that replaces its value within the scope.
    """
    variables = [*model.variables, *getattr(model, "metrics_variables", [])]
    current_values = [(variable, variable.value) for variable in variables]
    return keras.StatelessScope([*current_values, *values], collect_losses=True)
