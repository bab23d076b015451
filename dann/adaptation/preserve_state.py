"""A scope in which running a network leaves it as it was."""

from collections.abc import Sequence

import keras


def preserve_state(model: keras.Layer, values: Sequence[tuple] = ()) -> keras.StatelessScope:
    """Returns a scope in which nothing that a model or layer assigns to its variables survives.

    Every scope begins with the same seeds, so that two passes draw the same noise. `values` are
    pairs of a variable and the tensor that it reads as instead. The scope holds the losses that
    layers add.
    """
    variables = [*model.variables, *getattr(model, "metrics_variables", [])]
    return keras.StatelessScope([*((v, v.value) for v in variables), *values], collect_losses=True)
