"""Which examples the batches hold, as indices: NumPy alone, whatever reads them."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_ROUNDS = 100  # of all groups, drawn at once


def group_numbers(
    labels: np.ndarray | None, source_domain: Any, balanced: bool
) -> np.ndarray | None:
    """Returns the group of each source example, where batches draw groups in equal parts.

    A group is a domain, a class if `balanced`, or with both a class of a domain.

    Args:
        labels: Labels `(n,)`, or `None` if the source is not arrays.
        source_domain: Number of each example's domain, integers `(n,)`, or `None`.
        balanced: Whether classes are drawn in equal parts.

    Returns:
        Values `(n,)`, alike within a group, or `None` if all examples are drawn alike.
    """
    if source_domain is None and not balanced:
        return None
    if labels is None:
        raise ValueError(
            "`balanced=True` and `source_domain` need the source as arrays, to know its labels "
            "beforehand. Received: a tf.data.Dataset"
        )
    if source_domain is None:
        return labels
    domains = np.asarray(source_domain)
    if domains.shape != labels.shape or not np.issubdtype(domains.dtype, np.integer):
        raise ValueError(
            "Argument `source_domain` must have one integer for each source example. Received: "
            f"{domains.dtype} of shape {domains.shape} for {len(labels)} examples"
        )
    if not balanced:
        return domains
    return np.unique(np.stack([domains, labels]), axis=1, return_inverse=True)[1].reshape(-1)


def draw_groups_alike(
    groups: np.ndarray, shuffle: bool, seed: int | None
) -> Callable[[], Iterator[list[int]]]:
    """Returns a function whose iterators give lists of indices without end, the groups in turn.

    Args:
        groups: Group of each example, `(n,)`; see `group_numbers`.
        shuffle: Whether to shuffle each group again each pass, and the groups' turns.
        seed: Seed of the order, or `None` for NumPy's global one.
    """
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    rng = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
    order = rng.permutation if shuffle else np.asarray

    def draw():
        streams = [itertools.chain.from_iterable(map(order, itertools.repeat(m))) for m in members]
        while True:
            turns = [order(np.arange(len(members))) for _ in range(_ROUNDS)]
            yield [next(streams[turn]) for turn in np.concatenate(turns)]

    return draw
