"""Several sources as one."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.data.domain_pair import DomainPair

_COMPARED = 256  # rows of two targets


class Joined:
    """Several array-likes one after the other, as one.

    Args:
        parts: Things with `shape`, `dtype` and `len` that give rows for an array of indices. Only
            their numbers of rows may differ.
    """

    def __init__(self, parts: Sequence[Any]):
        self.parts = list(parts)
        self.ends = np.cumsum([len(part) for part in self.parts])
        self.shape = (int(self.ends[-1]), *self.parts[0].shape[1:])
        self.dtype = self.parts[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> np.ndarray:
        rows = np.arange(len(self))[chosen]
        flat = np.atleast_1d(rows)
        found = np.empty((len(flat), *self.shape[1:]), self.dtype)
        for part, end in zip(self.parts, self.ends, strict=True):
            start = end - len(part)
            its = np.flatnonzero((start <= flat) & (flat < end))
            if its.size:
                found[its] = part[flat[its] - start]
        return found if np.ndim(rows) else found[0]


def join_sources(pairs: Sequence[DomainPair]) -> DomainPair:
    """Joins pairs that share a target into one pair with all their sources.

    Every method trains on the sources together; `dann.MDAN` also learns to tell them apart. Batches
    hold equal parts of each.

    Args:
        pairs: One pair for each source, with the same target, inputs and classes.

    Returns:
        A pair with `source_domain`: for each training example, the index of its source.

    Raises:
        ValueError: If `pairs` is empty, or their targets, inputs or classes differ. Of the
            targets 256 rows are compared.

    Example:

    >>> import numpy as np
    >>> from dann.data import arrays, join_sources
    >>> labels = np.arange(20) % 2
    >>> target = np.zeros((20, 3)), labels
    >>> far, near = [arrays((np.full((20, 3), x), labels), target) for x in (5.0, 1.0)]
    >>> domains = join_sources([far, near])
    >>> domains.source, domains.num_sources, np.bincount(domains.source_domain).tolist()
    ('source + source', 2, [16, 16])
    """
    facts = [(p.target, p.input_shape, p.num_classes, p.class_names) for p in pairs]
    if not facts or facts.count(facts[0]) < len(facts):
        raise ValueError(
            "Several sources need pairs that agree in the name of the target, the shape of inputs, "
            f"and the number and names of classes. Received: {facts}"
        )
    if any(pair.source_domain is not None for pair in pairs):
        raise ValueError("Several sources are joined once, from pairs of one source each")
    first = pairs[0]
    for pair in pairs[1:]:
        if not _are_alike(_target_of(pair), _target_of(first)):
            raise ValueError(
                "Pairs with several sources must share their target, split and scaled alike; "
                "`csv_table` scales by the rows of its source, too, so give `arrays` that are "
                f"scaled together. Received: other target examples beside {pair.source}"
            )
    return dataclasses.replace(
        first,
        source=" + ".join(pair.source for pair in pairs),
        source_train=_joined([pair.source_train for pair in pairs]),
        source_test=_joined([pair.source_test for pair in pairs]),
        source_domain=np.repeat(range(len(pairs)), [len(pair.source_train[1]) for pair in pairs]),
    )


def _target_of(pair):
    """Inputs and labels of the target, where there are some."""
    held = [pair.target_train, *pair.target_test, *(pair.target_labelled or ())]
    return [values for values in held if values is not None]


def _are_alike(columns, others):
    """Whether they have the same rows, of those that are compared."""
    if [len(values) for values in columns] != [len(values) for values in others]:
        return False
    places = [np.linspace(0, len(values) - 1, _COMPARED).astype(int) for values in columns]
    pairs = zip(columns, others, places, strict=True)
    return all(np.array_equal(mine[rows], its[rows]) for mine, its, rows in pairs)


def _joined(examples):
    inputs, labels = zip(*examples, strict=True)
    in_memory = all(isinstance(part, np.ndarray) for part in inputs)
    return np.concatenate(inputs) if in_memory else Joined(inputs), np.concatenate(labels)
