"""Splits of examples into those to train on and those to test on."""

import functools
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from dann.checks import check_number

UNKNOWN = -1  # the label of an example whose class is not known


def hold_out(
    labels: np.ndarray, groups: Any, test_share: float, seed: int, is_source: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Splits a domain's examples at random into those to train on and those to test on.

    Of labelled and unlabelled examples, labelled ones are tested on. Of a source the test holds the
    classes in the same proportions, and training keeps every class. The labels of a target, which
    must not reach training, not even so, do not change the split.

    Args:
        labels: Labels `(n,)`, -1 where unknown.
        groups: The group of each example, `(n,)`: numbers or texts, such as persons. Then
            `test_share` of the *groups* is tested on, rounded up, and unlabelled examples of these
            are in neither part; the same groups give the same draw, however many examples they
            have. `None`: each example is drawn alone.
        test_share: Share of the examples to test on, in (0, 1); each part gets at least one.
        seed: Seed of the draw.
        is_source: Whether they are a source's.

    Returns:
        Two sorted arrays of indices without a common element.

    Raises:
        ValueError: If `test_share` is out of range or nothing is left to train on, or nothing of a
            class of a source.
    """
    check_number("test_share", test_share, 0, 1, above=True, below=True)
    known = np.flatnonzero(labels != UNKNOWN)
    known = known if len(known) else np.arange(len(labels))
    if groups is not None:
        draw = GroupShuffleSplit(1, test_size=test_share, random_state=seed)
        test = known[next(draw.split(known, groups=groups[known]))[1]]
        train = np.flatnonzero(~np.isin(groups, groups[test]))
        lacking = np.setdiff1d(labels[test], labels[train]) if is_source else ()
        if len(lacking):
            raise ValueError(
                "Each class of the source needs a group to train on, as another `seed` or "
                f"`test_share` may leave. Received: none for the classes {lacking}"
            )
        return train, test
    if len(known) < 2:
        raise ValueError(f"Holding out test examples takes at least 2. Received: {len(known)}")
    count = min(max(round(len(known) * test_share), 1), len(known) - 1)
    draw = functools.partial(train_test_split, test_size=count, random_state=seed)
    try:
        test = draw(known, stratify=labels[known] if is_source else None)[1]
    except ValueError:  # A class is too small to be in both parts; training must not lose it.
        test = np.delete(known, np.unique(labels[known], return_index=True)[1])
        if len(test) == 0:
            raise ValueError(f"A test takes a class of 2. Received: {len(known)} of 1") from None
        test = draw(test)[1] if len(test) > count else test
    return np.setdiff1d(np.arange(len(labels)), test), np.sort(test)
