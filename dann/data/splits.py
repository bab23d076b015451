"""Train and test sets: one seeded draw for every reader, and no example in both."""

import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from dann.checks import check_integer, check_number


def hold_out(
    count: int, test_share: float, seed: int = 0, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Splits `count` examples at random into those to train on and those to test on.

    Args:
        count: Number of examples, at least 2.
        test_share: Share of the examples to test on, in (0, 1); each part gets at least one.
        seed: Seed of the draw.
        labels: Labels `(count,)` of a source. Both parts then hold the classes in the same
            proportions; where there are too few examples for that, every class is still trained on.
            Never pass the labels of a target: they must not reach training, not even so. Defaults
            to `None`.

    Returns:
        Two sorted arrays of indices without a common element.

    Raises:
        ValueError: If `test_share` or `seed` is out of range or there are fewer than 2 examples.
    """
    check_number("test_share", test_share, 0, 1, above=True, below=True)
    check_integer("seed", seed, 0, 2**32 - 1)
    if count < 2:
        raise ValueError(f"Holding out test examples takes at least 2. Received: {count}")
    held_out = min(max(round(count * test_share), 1), count - 1)
    stratified = labels is not None and _can_stratify(labels, held_out)
    pinned = np.array([], dtype=np.int64)
    if labels is not None and not stratified:
        pinned = _one_of_each(labels, seed)  # training must not lose a class
    pool = np.setdiff1d(np.arange(count), pinned)
    if len(pool) == 0:
        raise ValueError(f"A test set takes a class of at least 2. Received: {count} classes of 1")
    if len(pool) <= held_out and len(pinned):
        return np.sort(pinned), pool
    train, test = train_test_split(
        pool, test_size=held_out, random_state=seed, stratify=labels if stratified else None
    )
    return np.sort(np.concatenate([pinned, train])), np.sort(test)


def _one_of_each(labels, seed):
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(np.flatnonzero(labels == name)) for name in np.unique(labels)])


def _can_stratify(labels, held_out):
    """Whether every class has two examples, and both parts have room for every class."""
    sizes = np.unique(labels, return_counts=True)[1]
    return sizes.min() >= 2 and len(sizes) <= min(held_out, len(labels) - held_out)


def check_apart(parts: Mapping[str, Any], overlap: Callable[[Any, Any], bool], what: str) -> None:
    """Raises a `ValueError` if something is tested on and trained on.

    Args:
        parts: What is read, under `"source"`, `"target"` and perhaps `"source test"` and `"target
            test"`. A domain without a test set is also tested on: a part of it is held out.
        overlap: Whether two of them hold a common example.
        what: What they are, for the message.
    """
    tested = [name for name in parts if f"{name} test" not in parts]
    trained = [name for name in parts if not name.endswith("test")]
    for name, other in itertools.product(tested, trained):
        if name != other and overlap(parts[name], parts[other]):
            raise ValueError(
                f"The {name} and the {other} must be different {what}, because nothing may be "
                f"tested on that is trained on. Received: {what} with a common part"
            )


def same_file(path: str | os.PathLike, other: str | os.PathLike) -> bool:
    """Whether two paths lead to one file."""
    return os.path.realpath(path) == os.path.realpath(other)
