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
            proportions where there are examples enough for that. Never those of a target, whose
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
    train, test = train_test_split(
        np.arange(count),
        test_size=held_out,
        random_state=seed,
        stratify=labels if labels is not None and _can_stratify(labels, held_out) else None,
    )
    return np.sort(train), np.sort(test)


def _can_stratify(labels, held_out):
    """Every class has two examples, and both parts have room for every class."""
    sizes = np.unique(labels, return_counts=True)[1]
    return sizes.min() >= 2 and len(sizes) <= min(held_out, len(labels) - held_out)
