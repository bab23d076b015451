"""Reader of arrays in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.data.domain_pair import DomainPair
from dann.data.parts import build_pair, check_disjoint


def arrays(
    source: Any,
    target: Any,
    source_test: Any = None,
    target_test: Any = None,
    *,
    test_share: float = 0.2,
    seed: int = 0,
    source_name: str = "source",
    target_name: str = "target",
    class_names: Sequence[str] | None = None,
    groups: tuple[Any, Any] | None = None,
    task: str | None = None,
) -> DomainPair:
    """Pairs two domains of arrays: images, time series, table rows or texts.

    Inputs `(n, ...)` have at least two axes and any numeric type; floats of more than 32 bits
    become float32. On TensorFlow, inputs may also be strings `(n,)`, for a backbone that begins
    with `keras.Input((), dtype="string")` and `keras.layers.TextVectorization`. Labels `(n,)` are
    integers, or strings that name the classes.

    A missing test set is drawn at random. The test set of the source has the class proportions of
    the source. The test set of the target is drawn from its labeled examples, regardless of their
    class, or from all examples if none is labeled. Training and test parts must not share memory,
    so one array can be both domains only if both test sets are passed. The contents of different
    arrays are not compared.

    Args:
        source: Arrays `(inputs, labels)`.
        target: An array of inputs, or `(inputs, labels)`. Only the test and oracles use these
            labels; an unknown label is -1, or an empty string.
        source_test: Arrays `(inputs, labels)`. Defaults to `None`: a share of the source.
        target_test: Arrays `(inputs, labels)`, or inputs, that are not in `target`. Defaults to
            `None`: a share of the target.
        test_share: Fraction of the examples to draw for a test set, in (0, 1). Defaults to `0.2`.
        seed: Seed of the draws. Defaults to `0`.
        source_name: Name of the source.
        target_name: Name of the target.
        class_names: Name of each class, by label. Defaults to `None`: the labels of the source, in
            order, if they are strings. Otherwise classes have no names, and their number is the
            largest label of the source plus one.
        groups: The group of each source example, `(n,)`, and of each target example, `(m,)`, such
            as persons or recordings; either may be `None`. Each test set then consists of whole
            groups, a fraction `test_share` of all groups, and no group is in both a training set
            and a test set. Use groups for windows of one recording, which are too similar for a
            fair test. Unlabeled examples of groups in the test set are dropped. Defaults to `None`:
            each example is drawn separately.
        task: `"classification"`, or `"regression"` for labels that are numbers; an unknown label of
            the target is then NaN or an empty string. Defaults to `None`: regression if a label of
            the source is a number with a fraction and `class_names` is `None`, which a printed line
            reports; otherwise classification.

    Raises:
        ValueError: If a part is empty or shares memory with a part that it must not overlap; there
            are fewer than 2 classes; a part other than the target lacks labels; the target has a
            class that the source lacks; inputs are neither finite numbers nor strings; no group
            remains for training; or shapes, types, lengths or data frame columns differ.

    Example:

    >>> import numpy as np
    >>> from dann.data import arrays
    >>> series, labels = np.zeros((50, 24, 3)), np.array(["up", "down"] * 25)
    >>> domains = arrays((series, labels), (series + 0.5, labels))
    >>> domains.source_train[0].shape, domains.target_test[0].shape, domains.class_names
    ((40, 24, 3), (10, 24, 3), ('down', 'up'))
    """
    arguments = {"source": source, "target": target}
    arguments |= {"source test": source_test, "target test": target_test}
    parts = {}
    for name, part in arguments.items():
        if part is not None or not name.endswith("test"):
            x, y = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
            x = np.asarray(x) if isinstance(x, np.memmap) else x  # its test rows are copied anyway
            parts[name] = {"inputs": x, "labels": y}
    for name, part_groups in zip(parts, () if groups is None else groups, strict=False):
        parts[name]["groups"] = part_groups
    check_disjoint({name: part["inputs"] for name, part in parts.items()}, _share_memory, "arrays")
    return build_pair(
        parts,
        source_name=source_name,
        target_name=target_name,
        test_share=test_share,
        seed=seed,
        class_names=class_names,
        task=task,
    )


def _share_memory(values, other_values):
    are_arrays = all(hasattr(array, "__array__") for array in (values, other_values))
    return values is other_values or (are_arrays and np.shares_memory(values, other_values))
