"""The reader of arrays in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.data.domain_pair import DomainPair
from dann.data.examples import InputSpec, check_matching_inputs
from dann.data.parts import build_pair, check_disjoint


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
    class_names: Sequence[str] | None = None,
    groups: tuple[Any, Any] | None = None,
) -> DomainPair:
    """Pairs two domains of arrays: images, time series, rows of a table, texts.

    Inputs `(n, ...)` have at least one axis beside the first, and any type of number; floats of
    more than 32 bits become float32. Texts are strings `(n,)`, for a backbone that begins with
    `keras.Input((), dtype="string")` and `keras.layers.TextVectorization`, on TensorFlow. Labels
    `(n,)` are integers, or strings that name the classes.

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
        class_names: Names of the classes, by label. Defaults to `None`: the source's labels in
            order, if they are strings; else there are as many classes as its largest label says.
        groups: The group of each source example, `(n,)`, and of each target example, `(m,)`, such
            as persons or recordings; one may be `None`. Whole groups are then drawn to test on, a
            `test_share` of them, and none is on both sides, of either domain. Windows of one
            recording on both sides would make a test nearly as easy as the training. Unlabelled
            examples of a group that is tested on are left out. Defaults to `None`: each example is
            drawn alone.

    Raises:
        ValueError: If a part is empty or both trained on and tested on, there are fewer than 2
            classes, a part other than the target lacks a label, the target has a class that the
            source lacks, inputs are neither finite numbers nor texts, no group is left to train
            on, or shapes, types, counts or the columns of frames do not fit.

    Example:

    >>> import numpy as np
    >>> from dann.data import arrays
    >>> series, labels = np.zeros((50, 24, 3)), np.array(["up", "down"] * 25)
    >>> domains = arrays((series, labels), (series + 0.5, labels))
    >>> domains.source_train[0].shape, domains.target_test[0].shape, domains.class_names
    ((40, 24, 3), (10, 24, 3), ('down', 'up'))
    """
    given = {"source": source, "target": target}
    given |= {"source test": source_test, "target test": target_test}
    parts = {name: _divided(part) for name, part in given.items() if part is not None}
    for name, its in zip(("source", "target"), groups or (), strict=False):
        parts[name]["groups"] = its
    inputs = {name: part["inputs"] for name, part in parts.items()}
    check_disjoint(inputs, _overlap, "arrays")
    forms = {name: InputSpec("rows", list(getattr(x, "columns", ()))) for name, x in inputs.items()}
    for name, form in forms.items():
        check_matching_inputs(forms["source"], form, name)
    return build_pair(
        parts,
        source_name=source_name,
        target_name=target_name,
        test_share=test_share,
        seed=seed,
        class_names=class_names,
    )


def _divided(part):
    x, y = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
    x = np.asarray(x) if isinstance(x, np.memmap) else x  # its rows are drawn into memory
    return {"inputs": x, "labels": y}


def _overlap(values, others):
    return values is others or np.shares_memory(values, others)
