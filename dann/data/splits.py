"""Splits of examples into a training set and a test set."""

import functools
import zlib
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from dann.checks import check_integer, check_number

UNKNOWN = -1  # label of an example whose class is unknown


def is_known(labels: np.ndarray) -> np.ndarray:
    """Returns which labels are known: not -1 or, for numbers in regression, not NaN."""
    return ~np.isnan(labels) if labels.dtype.kind == "f" else labels != UNKNOWN


def hold_out(
    labels: np.ndarray, groups: Any, test_share: float, seed: int, is_source: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Splits the examples of a domain at random into a training set and a test set.

    If some examples are labeled, only labeled ones are drawn for the test set. The test set of a
    source has the class proportions of the source, and every class keeps a training example. The
    classes of a target do not affect the split, because they must not influence training.

    Args:
        labels: Labels `(n,)`, -1 where unknown.
        groups: The group of each example, `(n,)`, as numbers or strings, such as persons. Then
            `test_share` of the *groups*, rounded up, is drawn for the test set. Unlabeled examples
            of these groups are in neither set. The draw depends only on the names of the groups,
            not on the number of examples per group. `None`: each example is drawn separately.
        test_share: Fraction of the examples in the test set, in (0, 1); each set gets at least one.
        seed: Seed of the draw, from 0 to 2**32 - 1.
        is_source: Whether the domain is a source.

    Returns:
        Two sorted arrays of row numbers without common elements: training set, test set.

    Raises:
        ValueError: If `test_share` or `seed` is out of range, or no examples, or no examples of a
            source class, remain for training.
    """
    check_number("test_share", test_share, 0, 1, exclude_low=True, exclude_high=True)
    check_integer("seed", seed, 0, 2**32 - 1)
    candidates = np.flatnonzero(labels != UNKNOWN)
    if not len(candidates):
        candidates = np.arange(len(labels))
    if groups is not None:
        draw = GroupShuffleSplit(1, test_size=test_share, random_state=seed)
        test = candidates[next(draw.split(candidates, groups=groups[candidates]))[1]]
        train = np.flatnonzero(~np.isin(groups, groups[test]))
        missing = np.setdiff1d(labels[test], labels[train]) if is_source else ()
        if len(missing):
            raise ValueError(
                "Expected a group to train on for each class of the source. Received: none for the "
                f"classes {missing}. Try another `seed` or `test_share`"
            )
        return train, test
    # At least one example for each of both sets.
    count = min(max(round(len(candidates) * test_share), 1), len(candidates) - 1)
    draw = functools.partial(train_test_split, test_size=count, random_state=seed)
    try:
        test = draw(candidates, stratify=labels[candidates] if is_source else None)[1]
    except ValueError:  # a class is too small for both sets; it must stay in the training set
        test = np.delete(candidates, np.unique(labels[candidates], return_index=True)[1])
        if len(test) == 0:
            domain = "a class of the source" if is_source else "the target"
            detail = ", at most 1 per class" if is_source else ""
            raise ValueError(
                f"Expected {domain} to have at least 2 examples, one of them for the test set. "
                f"Received: {len(candidates)} examples{detail}"
            ) from None
        test = draw(test)[1] if len(test) > count else test
    return np.setdiff1d(np.arange(len(labels)), test), np.sort(test)


def draw_per_class(labels: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """Draws equally many examples of each class, and returns their rows in ascending order.

    Args:
        labels: Labels `(n,)`, -1 where unknown. Classes without examples are ignored.
        per_class: Number of examples per class, from 1 to the size of the smallest class.
        seed: Seed of the draw.
    """
    counts = np.bincount(labels[labels >= 0])
    smallest = int(counts[counts > 0].min(initial=len(labels)))
    hint = f"because the target has {counts.tolist()} examples per class"
    check_integer("per_class", per_class, 1, smallest, hint=hint)
    rng = np.random.default_rng(seed)
    drawn_rows = [
        rng.choice(np.flatnonzero(labels == label), per_class, replace=False)
        for label in np.flatnonzero(counts)
    ]
    return np.sort(np.concatenate(drawn_rows))


def identify_inputs(inputs: Any) -> list[float]:
    """Returns the number of inputs, and the mean magnitudes of 64 inputs, weighted by 1 to 64."""
    rows = np.unique(np.linspace(0, len(inputs) - 1, 64).astype(int))
    values = np.asarray(inputs[rows])
    if values.dtype.kind not in "biuf":  # text
        values = np.array([zlib.crc32(str(row).encode()) for row in values])
    sizes = np.abs(values.reshape(len(rows), -1).astype("float64")).mean(axis=1)
    return [len(inputs), float(sizes @ np.arange(1, len(rows) + 1))]
