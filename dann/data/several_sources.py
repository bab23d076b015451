"""Several sources as one."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from dann.data.domain_pair import DomainPair
from dann.data.lazy_arrays import Joined

_COMPARED = 256  # rows of two targets


def several_sources(pairs: Sequence[DomainPair]) -> DomainPair:
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
    >>> from dann.data import arrays, several_sources
    >>> labels = np.arange(20) % 2
    >>> target = np.zeros((20, 3)), labels
    >>> far, near = [arrays((np.full((20, 3), x), labels), target) for x in (5.0, 1.0)]
    >>> domains = several_sources([far, near])
    >>> domains.source, domains.num_sources, np.bincount(domains.source_domain).tolist()
    ('source + source', 2, [16, 16])
    """
    if not pairs:
        raise ValueError("Expected one pair of domains or more. Received: none")
    first = pairs[0]
    for name in ("target", "input_shape", "num_classes", "class_names"):
        values = [getattr(pair, name) for pair in pairs]
        if any(value != values[0] for value in values):
            raise ValueError(
                f"Pairs with several sources must agree in `{name}`. Received: {values}"
            )
    for part in ("target_train", "target_test", "target_labelled"):
        for pair in pairs[1:]:
            if not _are_alike(getattr(pair, part), getattr(first, part)):
                raise ValueError(
                    "Pairs with several sources must share their target, split and scaled alike; "
                    "`csv_table` scales by the rows of its source, too, so give `arrays` that are "
                    f"scaled together. Received: other examples in `{part}`, from {pair.source}"
                )
    return dataclasses.replace(
        first,
        source=" + ".join(pair.source for pair in pairs),
        source_train=_joined([pair.source_train for pair in pairs]),
        source_test=_joined([pair.source_test for pair in pairs]),
        source_domain=np.repeat(range(len(pairs)), [len(pair.source_train[1]) for pair in pairs]),
    )


def _are_alike(examples, others):
    """Whether the inputs and labels of both have the same rows, of those that are compared."""
    columns = [one if isinstance(one, tuple) else (one,) for one in (examples, others)]
    for mine, its in zip(*columns, strict=True):
        if mine is None or its is None or len(mine) != len(its):
            return mine is its
        rows = np.linspace(0, len(mine) - 1, _COMPARED).astype(int)
        if not np.array_equal(mine[rows], its[rows]):
            return False
    return True


def _joined(examples):
    inputs, labels = zip(*examples, strict=True)
    in_memory = all(isinstance(part, np.ndarray) for part in inputs)
    return np.concatenate(inputs) if in_memory else Joined(inputs), np.concatenate(labels)
