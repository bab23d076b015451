"""The reader of arrays in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.checks import check_class_range, check_integer
from dann.data.array_likes import as_array, in_order_of
from dann.data.domain_pair import DomainPair
from dann.data.readers import READERS
from dann.data.splits import check_apart, hold_out

_UNKNOWN = -1


@READERS.register("arrays")
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
    target's among its labelled examples, whatever their labels, or among all if none is labelled.
    No memory is both trained and tested on, so one array may be both domains only if nothing is
    drawn from it; the contents of different arrays are not compared.

    Args:
        source: Arrays `(inputs, labels)`.
        target: An array of inputs, or `(inputs, labels)`. The labels are for the test and oracles
            only; an unknown one is -1, or an empty string.
        source_test: Arrays `(inputs, labels)`. Defaults to `None`: a share of the source.
        target_test: The same, or inputs, that `target` does not hold. Defaults to `None`: a share
            of the target's examples.
        test_share: Share of the examples to draw for a test, in (0, 1). Defaults to `0.2`.
        seed: Seed of the draws.
        source_name: Name of the source.
        target_name: Name of the target.
        num_classes: Number of classes, at least 2. Defaults to `None`: that of the names, or one
            more than the source's largest label.
        class_names: Names of the classes, by label. Defaults to `None`: the source's labels in
            order, if they are strings.

    Raises:
        ValueError: If a part is empty or both trained on and tested on, there are fewer than 2
            classes, two classes have one name, a part other than the target lacks a label, the
            target has a class that the source lacks, inputs are not finite numbers, or shapes,
            types or counts do not fit.

    Example:

    >>> import numpy as np
    >>> from dann.data import arrays
    >>> series, labels = np.zeros((50, 24, 3)), np.array(["up", "down"] * 25)
    >>> domains = arrays((series, labels), (series + 0.5, labels))
    >>> domains.source_train[0].shape, domains.target_test[0].shape, domains.class_names
    ((40, 24, 3), (10, 24, 3), ('down', 'up'))
    """
    parts = {
        "source": source,
        "target": target,
        "source test": source_test,
        "target test": target_test,
    }
    given = {name: _divided(name, part) for name, part in parts.items() if part is not None}
    inputs = {name: part[0] for name, part in given.items()}
    tested = {name: part for name, part in inputs.items() if f"{name} test" not in inputs}
    # As they were given, because converting some copies them.
    check_apart({name: inputs[name] for name in ("source", "target")}, tested, _overlap, "arrays")
    first = inputs["source"]
    inputs = {name: _numbers(name, in_order_of(first, x, name)) for name, x in inputs.items()}
    labels = {name: _labels(name, part[1], len(inputs[name])) for name, part in given.items()}
    labels, class_names = _numbered(labels, class_names)
    if num_classes is None:
        most = max(labels[name].max(initial=0) for name in labels if name.startswith("source"))
        num_classes = len(class_names) if class_names else int(most) + 1
    check_integer("num_classes", num_classes, 2)
    check_class_range("Labels of the target", labels["target"], num_classes, unknown=_UNKNOWN)
    for name, stratified in (("source", True), ("target", False)):
        if f"{name} test" not in inputs:
            train, test = _drawn(labels[name], stratified, test_share, seed)
            inputs[f"{name} test"], labels[f"{name} test"] = inputs[name][test], labels[name][test]
            inputs[name], labels[name] = inputs[name][train], labels[name][train]
    return DomainPair(
        source=source_name,
        target=target_name,
        source_train=(inputs["source"], labels["source"]),
        source_test=(inputs["source test"], labels["source test"]),
        target_train=inputs["target"],
        target_test=(inputs["target test"], _if_any(labels["target test"])),
        num_classes=num_classes,
        class_names=class_names,
        target_train_labels=_if_any(labels["target"]),
    )


def _divided(name, examples):
    """Inputs, and labels or `None`."""
    if isinstance(examples, tuple | list) and len(examples) == 2:
        return examples[0], examples[1]
    if name.startswith("target") and not isinstance(examples, tuple | list):
        return examples, None
    raise ValueError(
        f"The {name} must be `(inputs, labels)`{' or inputs' * name.startswith('target')}. "
        f"Received: {type(examples).__name__}"
    )


def _overlap(values, others):
    return values is others or np.shares_memory(values, others)


def _numbers(name, values):
    values = np.asarray(as_array(values, name))
    if values.dtype.kind not in "biuf":
        raise ValueError(f"Inputs of the {name} must be numbers. Received: {values.dtype}")
    if values.ndim < 2:
        wanted = "have the shape (batch, size, ...)"
        raise ValueError(f"Inputs of the {name} must {wanted}. Received: shape {values.shape}")
    if values.dtype.kind != "f" or values.dtype.itemsize <= 4:
        return values
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        return as_array(values.astype(np.float32), name)


def _labels(name, labels, count):
    """Labels as integers or strings `(n,)`; -1 throughout if there are none."""
    labels = np.full(count, _UNKNOWN) if labels is None else np.asarray(labels)
    texts = labels.dtype.kind in "UT" or all(isinstance(label, str) for label in labels.flat)
    if labels.shape != (count,) or not (texts or labels.dtype.kind in "biu"):
        raise ValueError(
            f"The {name} must have one label for each input, an integer or a string. "
            f"Received: {count} inputs and labels {labels.dtype} {labels.shape}"
        )
    return labels.astype(str if texts else np.int64)


def _numbered(labels, class_names):
    """Labels as integers, and the names of the classes: the given, or the source's in order."""
    texts = [name for name, found in labels.items() if found.dtype.kind == "U"]
    others = [name for name in labels if name not in texts and _if_any(labels[name]) is not None]
    if texts and others:
        raise ValueError(
            "Labels must be strings in every part or in none. "
            f"Received: strings in {texts}, integers in {others}"
        )
    if class_names is None and texts:
        # The target's labels do not decide what the classes are.
        class_names = {name for part in texts if "source" in part for name in labels[part].tolist()}
        class_names = sorted(class_names - {""})
    names = None if class_names is None else tuple(class_names)
    if names and len(set(names)) < len(names):
        raise ValueError(f"Every class must have a name of its own. Received: {names}")
    numbers = {"": _UNKNOWN, **{name: number for number, name in enumerate(names or ())}}
    for name in texts:
        strange = sorted(set(labels[name].tolist()) - numbers.keys())
        if strange:
            raise ValueError(f"Labels of the {name} must be among {names}. Received: {strange}")
        labels[name] = np.array([numbers[label] for label in labels[name].tolist()], np.int64)
    for name in labels:
        if "source" in name and (labels[name] == _UNKNOWN).any():
            raise ValueError(
                f"Every example of the {name} must have a label; -1 or '' stands for an unknown "
                f"one. Received: {np.count_nonzero(labels[name] == _UNKNOWN)} without one"
            )
    return labels, names


def _drawn(labels, stratified, share, seed):
    """Indices to train and to test on; of labelled and unlabelled examples, labelled to test on."""
    known = np.flatnonzero(labels != _UNKNOWN)
    known = known if len(known) else np.arange(len(labels))
    test = known[hold_out(len(known), share, seed, labels if stratified else None)[1]]
    return np.setdiff1d(np.arange(len(labels)), test), test


def _if_any(labels):
    """The labels, or `None` if all are unknown."""
    return labels if (labels != _UNKNOWN).any() else None
