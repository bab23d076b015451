"""The reader of arrays in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.checks import check_class_range, check_integer, check_number, check_shape
from dann.data.domain_pair import DomainPair
from dann.data.readers import READERS
from dann.data.splits import check_arrays_apart, hold_out

_UNKNOWN = -1
_MANY_CLASSES = 1000


@READERS.register(
    "arrays",
    summary="Two arrays of inputs with labels.",
    reads="arrays",
)
def arrays(
    source: Any,
    target: Any,
    *,
    source_test: Any = None,
    target_test: Any = None,
    test_share: float = 0.2,
    seed: int = 0,
    source_name: str = "source",
    target_name: str = "target",
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
) -> DomainPair:
    """Pairs two domains of arrays: images, time series, rows of a table.

    Inputs `(n, ...)` have at least one axis beside the first, and any type of number; floats of
    more than 32 bits become float32. Labels `(n,)` are integers, or strings that name the classes.

    A missing test set is drawn at random: the source's in the proportions of its classes, the
    target's among its labelled examples, whatever their labels. No memory is both trained and
    tested on, so one array may be both domains only if nothing is drawn from it; the contents of
    different arrays are not compared.

    Args:
        source: Arrays `(inputs, labels)`.
        target: An array of inputs, or `(inputs, labels)`. The labels are for the test and oracles
            only; an unknown one is -1, or an empty string.
        source_test: Arrays `(inputs, labels)`. Defaults to `None`: a share of the source.
        target_test: Arrays `(inputs, labels)` that `target` does not hold. Defaults to `None`: a
            share of the target's labelled examples.
        test_share: Share of the examples to draw for a test, in (0, 1). Defaults to `0.2`.
        seed: Seed of the draws.
        source_name: Name of the source.
        target_name: Name of the target.
        num_classes: Number of classes, at least 2. Defaults to `None`: that of the names, or one
            more than the source's largest label. More than 1,000 classes must be given here if the
            source has fewer examples than classes.
        class_names: Names of the classes, by label. Defaults to `None`: the source's labels in
            order, if they are strings.

    Raises:
        ValueError: If a part is empty or both trained on and tested on, there are fewer than 2
            classes, two classes have one name, the target has no labels to test with, another part
            lacks a label, the target has a class that the source lacks, inputs are not finite
            numbers, or shapes, types or counts do not fit.

    Example:

    >>> import numpy as np
    >>> from dann.data import arrays
    >>> rng = np.random.default_rng(0)
    >>> series = rng.normal(size=(50, 24, 3))  # (examples, time, channels)
    >>> labels = np.where(series[:, :, 0].mean(axis=1) > 0, "up", "down")
    >>> domains = arrays((series, labels), (series + 0.5, labels))
    >>> domains.source_train[0].shape, domains.target_test[0].shape, domains.class_names
    ((40, 24, 3), (10, 24, 3), ('down', 'up'))
    """
    check_number("test_share", test_share, 0, 1, above=True, below=True)
    given = {
        "source": source,
        "target": target,
        "source test": source_test,
        "target test": target_test,
    }
    given = {name: part for name, part in given.items() if part is not None}
    parts = {name: _read(name, part) for name, part in given.items()}
    class_names = _class_names(parts, class_names)
    parts = {name: (x, _as_integers(name, y, class_names)) for name, (x, y) in parts.items()}
    if num_classes is None:
        num_classes = len(class_names) if class_names else _count_classes(parts)
    check_integer("num_classes", num_classes, 2)
    if class_names is not None and len(set(class_names)) < len(class_names):
        raise ValueError(f"Every class must have a name of its own. Received: {class_names}")
    check_class_range("Labels of the target", parts["target"][1], num_classes, unknown=_UNKNOWN)
    _check_apart(given)
    if source_test is None:
        labels = parts["source"][1]
        chosen = hold_out(len(labels), test_share, seed, labels)
        parts["source"], parts["source test"] = _divided(parts["source"], chosen)
    if target_test is None:
        chosen = _hold_out_labelled(parts["target"][1], test_share, seed)
        parts["target"], parts["target test"] = _divided(parts["target"], chosen)
    target_train, target_labels = parts["target"]
    return DomainPair(
        source=source_name,
        target=target_name,
        source_train=parts["source"],
        source_test=parts["source test"],
        target_train=target_train,
        target_test=parts["target test"],
        num_classes=num_classes,
        class_names=class_names,
        target_train_labels=target_labels if (target_labels != _UNKNOWN).any() else None,
    )


def _read(name, examples) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels (integers or strings) as arrays; labels of -1 if a target has none."""
    if isinstance(examples, tuple | list) and len(examples) == 2:
        inputs, labels = _numbers(name, examples[0]), _labels(name, examples[1])
    elif name == "target" and not isinstance(examples, tuple | list):
        inputs = _numbers(name, examples)
        labels = np.full(len(inputs), _UNKNOWN)
    else:
        raise ValueError(
            f"The {name} must be `(inputs, labels)`{' or inputs' * (name == 'target')}. "
            f"Received: {type(examples).__name__}"
        )
    if len(inputs) != len(labels):
        raise ValueError(
            f"The {name} must have one label for each input. "
            f"Received: {len(inputs)} inputs and {len(labels)} labels"
        )
    return inputs, labels


def _check_apart(given):
    """Compares the inputs as they were given, because converting some has copied them."""
    inputs = {
        name: part[0] if isinstance(part, tuple | list) else part for name, part in given.items()
    }
    trained = {name: inputs[name] for name in ("source", "target")}
    tested = {name: part for name, part in inputs.items() if f"{name} test" not in inputs}
    check_arrays_apart(trained, tested)


def _numbers(name, values):
    values = np.asarray(values)
    if values.ndim and len(values) == 0:
        raise ValueError(
            f"The {name} holds no examples. Received: an empty array of shape {values.shape}"
        )
    if values.dtype.kind not in "biuf":
        raise ValueError(f"Inputs of the {name} must be numbers. Received: {values.dtype}")
    check_shape(f"Inputs of the {name}", values.shape, ("batch", "size", ...))
    if values.dtype.kind != "f":
        return values
    if values.dtype.itemsize > 4:
        with np.errstate(over="ignore"):  # becomes infinite, which is refused below
            values = values.astype(np.float32)
    wrong = values.size - np.count_nonzero(np.isfinite(values))
    if wrong:
        raise ValueError(
            f"Inputs of the {name} must be finite in {values.dtype}. Received: {wrong} of "
            f"{values.size} values that are NaN or infinite"
        )
    return values


def _labels(name, labels):
    labels = np.asarray(labels)
    check_shape(f"Labels of the {name}", labels.shape, ("batch",))
    if labels.dtype.kind in "biu":
        return labels.astype(np.int64)
    if labels.dtype.kind in "UT" or all(isinstance(label, str) for label in labels):
        return labels.astype(str)
    raise ValueError(f"Labels of the {name} must be integers or strings. Received: {labels.dtype}")


def _class_names(parts, class_names):
    """The given names, or else the source's labels in order if they are strings, or `None`."""
    strings = [name for name, (_, labels) in parts.items() if labels.dtype.kind == "U"]
    numbers = [
        name
        for name, (_, labels) in parts.items()
        if labels.dtype.kind == "i" and (labels != _UNKNOWN).any()
    ]
    if strings and numbers:
        raise ValueError(
            "Labels must be strings in every part or in none. "
            f"Received: strings in {strings}, integers in {numbers}"
        )
    if class_names is None and strings:
        # The target's labels do not decide what the classes are.
        found = [parts[name][1] for name in strings if name.startswith("source")]
        class_names = [name for name in np.unique(np.concatenate(found)).tolist() if name]
    return None if class_names is None else tuple(class_names)


def _as_integers(name, labels, class_names):
    if labels.dtype.kind == "U":
        indices = {class_name: index for index, class_name in enumerate(class_names)}
        indices[""] = _UNKNOWN
        strange = sorted(set(labels.tolist()) - set(indices))
        if strange:
            raise ValueError(
                f"Labels of the {name} must be among the classes {class_names}. Received: {strange}"
            )
        labels = np.array([indices[label] for label in labels.tolist()], dtype=np.int64)
    missing = np.count_nonzero(labels == _UNKNOWN)
    if missing and name != "target":
        raise ValueError(
            f"Every example of the {name} must have a label; -1 or '' stands for an unknown one. "
            f"Received: {missing} without one"
        )
    return labels


def _count_classes(parts):
    """One more than the largest label of the source."""
    labels = [labels for name, (_, labels) in parts.items() if name.startswith("source")]
    labels = np.concatenate(labels)
    count = int(labels.max(initial=0)) + 1
    if count > max(_MANY_CLASSES, len(labels)):  # one odd label would make a huge label head
        raise ValueError(
            "Labels must number the classes from 0. If there are so many classes, give their "
            f"number as `num_classes`. Received: a label of {count - 1} among the {len(labels)} "
            "of the source"
        )
    return count


def _divided(examples, chosen):
    inputs, labels = examples
    return tuple((inputs[indices], labels[indices]) for indices in chosen)


def _hold_out_labelled(labels, share, seed):
    """Like `hold_out`, but holds out a share of the examples that have a label."""
    known = np.flatnonzero(labels != _UNKNOWN)
    if len(known) == 0:
        raise ValueError(
            "The target needs a few labelled examples, or a test set that has labels, because a "
            "run reports its accuracy. Received: no labels of the target"
        )
    test = known[hold_out(len(known), share, seed)[1]]
    return np.setdiff1d(np.arange(len(labels)), test), test
