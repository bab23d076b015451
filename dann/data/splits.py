"""One seeded hold-out for every loader."""

import numpy as np
from sklearn.model_selection import train_test_split


def hold_out(
    count: int, share: float, seed: int = 0, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Splits `count` examples in two at random: those to train on, and those held out for a test.

    Args:
        count: Number of examples, at least 2.
        share: Share of the examples that is held out, in (0, 1); each part gets at least one.
        seed: Of the draw.
        labels: Labels `(count,)` of a source, so that both parts hold its classes in the same
            proportions where there are examples enough for that, and else every class is trained
            on. Never those of a target, whose
            labels must not reach training even so. Defaults to `None`.

    Returns:
        Two sorted arrays of indices that have none in common.

    Raises:
        ValueError: If `share` is out of range or there are fewer than 2 examples.
    """
    if not 0 < share < 1:
        raise ValueError(f"The share of test examples must be in (0, 1). Received: {share}")
    if count < 2:
        raise ValueError(f"Holding out test examples takes at least 2. Received: {count}")
    held_out = min(max(round(count * share), 1), count - 1)
    stratified = labels is not None and _can_stratify(labels, held_out)
    pinned = np.array([], dtype=np.int64)
    if labels is not None and not stratified:
        pinned = _one_of_each(labels, seed)  # no class may vanish from what is trained on
    pool = np.setdiff1d(np.arange(count), pinned)
    if len(pool) == 0:
        raise ValueError(
            "Holding out test examples takes a class of at least 2. "
            f"Received: {count} examples of {count} classes"
        )
    if len(pool) <= held_out and len(pinned):
        return np.sort(pinned), pool
    train, test = train_test_split(
        pool,
        test_size=held_out,
        random_state=seed,
        stratify=labels if stratified else None,
    )
    return np.sort(np.concatenate([pinned, train])), np.sort(test)


def _one_of_each(labels, seed):
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(np.flatnonzero(labels == name)) for name in np.unique(labels)])


def _can_stratify(labels, held_out):
    """Every class has two examples, and both parts have room for every class."""
    sizes = np.unique(labels, return_counts=True)[1]
    return sizes.min() >= 2 and len(sizes) <= min(held_out, len(labels) - held_out)
