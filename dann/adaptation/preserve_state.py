"""A scope that runs a network without changing its state."""

import contextlib
from collections.abc import Iterator, Sequence

import keras


@contextlib.contextmanager
def preserve_state(
    model: keras.Layer, values: Sequence[tuple] = ()
) -> Iterator[keras.StatelessScope]:
    """Returns a scope that discards everything a model or layer assigns to its variables.

    Random seeds are not advanced either, so two passes in two scopes draw the same noise. The scope
    collects the losses that layers add.

    Args:
        model: The model or layer.
        values: Pairs of a variable and the tensor that replaces its value within the scope.
    """
    variables = [*model.variables, *getattr(model, "metrics_variables", [])]
    current_values = [(variable, variable.value) for variable in variables]
    with contextlib.ExitStack() as stack:
        if keras.backend.backend() == "torch":
            # `Dropout` without a seed draws from the generator of torch, not from a Keras seed.
            import torch  # pyright: ignore[reportMissingImports]

            devices = list(range(torch.cuda.device_count()))
            stack.enter_context(torch.random.fork_rng(devices))
        scope = keras.StatelessScope([*current_values, *values], collect_losses=True)
        yield stack.enter_context(scope)
