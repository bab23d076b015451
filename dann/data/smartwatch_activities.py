"""The reader of movements of people who wear a smartwatch."""

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
    """Pairs two groups of people who did seven shoulder exercises with a smartwatch on.

    The package seglearn (`pip install dann[seglearn]`) holds the 140 recordings: ten people, two
    arms, three axes of acceleration and of rotation at 50 Hz. They are cut into windows one after
    the other, and every channel is scaled to mean 0 and variance 1 on the source's training
    windows. People who are tested on are not trained on.

    Args:
        source: Numbers of the source's people, from 1 to 10.
        target: Numbers of the target's people, others.
        window: Samples in a window, at least 1. Defaults to `100`: two seconds.
        test_share: Share of each domain's people to test on, in (0, 1), rounded up.
            Defaults to `0.4`, two of five: a single person is easy or hard.
        **options: `seed` of `dann.data.arrays`.

    Returns:
        A pair with inputs float32 `(n, window, 6)`.

    Raises:
        ImportError: If seglearn is not installed.
        ValueError: If a number is no person's, one is in both domains, or no one is left to train
            on.

    Reference:
        - [Burns et al., 2018](https://arxiv.org/abs/1802.01489)
    """
    try:
        from seglearn.datasets import load_watch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("The watch's data needs `pip install dann[seglearn]`") from error
    data = load_watch()
    check_integer("window", window, 1)
    known = set(data["subject"].tolist())
    if not {*source, *target} <= known or {*source} & {*target}:
        raise ValueError(
            f"Source and target must be different people of {sorted(known)}. "
            f"Received: {list(source)} and {list(target)}"
        )
    chosen = {"source": source, "target": target}
    pair = build_pair(
        {name: _windows(data, people, window) for name, people in chosen.items()},
        source_name=_name(source),
        target_name=_name(target),
        class_names=data["y_labels"],
        test_share=test_share,
        **options,
    )
    series = pair.source_train[0]
    mean, deviation = series.mean(axis=(0, 1)), series.std(axis=(0, 1))
    return pair.map_inputs(lambda part: (part - mean) / deviation)


def _windows(data, people, window):
    """Windows one after the other, their exercises and their people; what is left over is lost."""
    chosen = np.flatnonzero(np.isin(data["subject"], people))
    cut = [_cut(data["X"][number], window) for number in chosen]
    rows = np.repeat(chosen, [len(windows) for windows in cut])
    labels, groups = data["y"][rows], data["subject"][rows]
    return {"inputs": np.concatenate(cut), "labels": labels, "groups": groups}


def _cut(series, window):
    count = len(series) // window
    return series[: count * window].reshape(count, window, -1)


def _name(people):
    return "people " + ",".join(map(str, people))
