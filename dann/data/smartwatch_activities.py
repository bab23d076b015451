"""Reader of smartwatch recordings of people who exercise."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.checks import check_integer
from dann.data.domain_pair import DomainPair
from dann.data.parts import build_pair


def smartwatch_activities(
    source: Sequence[int] = (1, 2, 3, 4, 5),
    target: Sequence[int] = (6, 7, 8, 9, 10),
    *,
    window: int = 100,
    test_share: float = 0.4,
    **options: Any,
) -> DomainPair:
    """Pairs two groups of people who did seven shoulder exercises while wearing a smartwatch.

    The package seglearn (`pip install seglearn`) contains the 140 recordings: ten people, two
    arms, three axes of acceleration and of rotation at 50 Hz. Each recording is cut into
    consecutive windows, and each channel is scaled to mean 0 and variance 1 on the source's
    training windows. No person is in a training set and in a test set.

    Args:
        source: Numbers of the source's people, from 1 to 10.
        target: Numbers of the target's people, which must differ from the source's.
        window: Number of samples per window, at least 1. Defaults to `100`: two seconds.
        test_share: Fraction of each domain's people in the test set, in (0, 1), rounded up.
            Defaults to `0.4`: two of five, because the accuracy on a single person varies widely.
        **options: `seed` of `dann.data.arrays`.

    Returns:
        A pair with inputs float32 `(n, window, 6)`.

    Raises:
        ImportError: If seglearn is not installed.
        ValueError: If a person does not exist or is in both domains, or nobody remains to train on.

    Reference:
        - [Burns et al., 2018](https://arxiv.org/abs/1802.01489)
    """
    try:
        from seglearn.datasets import load_watch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("The smartwatch recordings need `pip install seglearn`") from error
    data = load_watch()
    check_integer("window", window, 1)
    people = set(data["subject"].tolist())
    if not {*source, *target} <= people or {*source} & {*target}:
        raise ValueError(
            f"Expected source and target to be different people of {sorted(people)}. "
            f"Received: {list(source)} and {list(target)}"
        )
    pair = build_pair(
        {"source": _cut(data, source, window), "target": _cut(data, target, window)},
        source_name=f"people {','.join(map(str, source))}",
        target_name=f"people {','.join(map(str, target))}",
        class_names=data["y_labels"],
        test_share=test_share,
        **options,
    )
    series = pair.source_train[0]
    mean, std = series.mean(axis=(0, 1)), series.std(axis=(0, 1))
    return pair.map_inputs(lambda inputs: (inputs - mean) / std)


def _cut(data, people, window):
    """Returns consecutive windows, their exercises and their people; drops the last samples."""
    recordings = np.flatnonzero(np.isin(data["subject"], people))
    counts = [len(data["X"][number]) // window for number in recordings]
    windows = [
        data["X"][number][: count * window].reshape(count, window, -1)
        for number, count in zip(recordings, counts, strict=True)
    ]
    rows = np.repeat(recordings, counts)
    labels, groups = data["y"][rows], data["subject"][rows]
    return {"inputs": np.concatenate(windows), "labels": labels, "groups": groups}
