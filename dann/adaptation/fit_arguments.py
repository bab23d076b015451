"""What Keras's `fit` and `evaluate` are given: by name, and checked against pairs."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import keras

from dann.adaptation.forward_pass import is_pair
from dann.data.pairs import Pairs


def by_name(method: Callable[..., Any], x: Any, y: Any, *args: Any, **kwargs: Any) -> dict:
    """Returns the arguments of a method of Keras by name, without `x` and `y`."""
    taken = inspect.signature(method)
    taken.bind(x, y, *args, **kwargs)  # raises an error for one that is unknown or given twice
    named = {**taken.bind_partial(x, y, *args).arguments, **kwargs}
    return {name: value for name, value in named.items() if name not in ("x", "y")}


def check_counts(x: Any) -> None:
    """Raises `ValueError` if a pair of arrays has domains of different sizes."""
    if not is_pair(x):
        return
    first = {name: keras.tree.flatten(x[name])[0] for name in ("source", "target")}
    counts = {name: len(part) for name, part in first.items() if len(getattr(part, "shape", ()))}
    if len(set(counts.values())) > 1:
        raise ValueError(
            "Both domains of a pair of arrays need the same number of examples; "
            "`dann.data.pair((inputs, labels), target)` recycles the smaller one. Received: "
            f"{counts['source']} of the source, {counts['target']} of the target"
        )


def refuse_split(share: float | None) -> None:
    """Raises `ValueError` if Keras is to split pairs."""
    if share:
        raise ValueError(
            "Pairs cannot be split; hold examples out before `pair` and give them as "
            "`validation_data=(inputs, labels)`, of the source, or of the target as an oracle. "
            f"Received: validation_split={share}"
        )


def refuse_endless(argument: str, num_batches: int | None, steps: int | None) -> None:
    """Raises `ValueError` for pairs without an end, unless the argument has a number of steps."""
    if num_batches is None and steps is None:
        raise ValueError(
            f"Endless pairs need a number of steps: `{argument}=...`, of validation "
            f"`validation_steps=...`. Received: {argument}=None"
        )


def warn_of_backups(callbacks: Any) -> None:
    """Warns if a callback of Keras would restore the epoch without the place in the pairs."""
    kind = keras.callbacks.BackupAndRestore
    if any(isinstance(callback, kind) for callback in keras.tree.flatten(callbacks or [])):
        warnings.warn(
            "Keras's `BackupAndRestore` goes on with the epoch at which a training stopped, but "
            "not with its batches; `dann.training.fit` does both.",
            stacklevel=4,
        )


def refuse_weights(weights: Any) -> None:
    """Raises `ValueError` if weights are given beside pairs, which hold their own."""
    if weights is not None:
        raise ValueError(
            "Weights belong to the source's examples: `pair((inputs, labels, weights), target)`. "
            "Received: sample_weight beside pairs"
        )


def refuse_weights_of_maps(labels: Any, num_classes: int, weights: Any) -> None:
    """Raises `ValueError` for class weights of label maps, which Keras takes for one-hot labels."""
    shape = getattr(labels, "shape", ())
    if weights and len(shape) > 1 and (len(shape) > 2 or shape[1] not in (1, num_classes)):
        raise ValueError(
            "Keras has no `class_weight` for maps of labels; give weights of the same shape, "
            "`pair((inputs, labels, np.array([...])[labels]), target)`. Received: class_weight "
            f"with labels of shape {tuple(shape)}"
        )


def validation_arrays(kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the inputs and labels of `validation_data`, where they are given as arrays."""
    data = kwargs.get("validation_data")
    return data[:2] if isinstance(data, tuple) and len(data) > 1 else (None, None)


def labels_in_memory(x: Any, y: Any) -> list[Any]:
    """Returns all labels that can be looked at before training."""
    domains = x.domains.values() if isinstance(x, Pairs) else ()
    columns = [getattr(getattr(one, "examples", None), "columns", {}) for one in domains]
    return [y, *(each["labels"] for each in columns if "labels" in each)]
