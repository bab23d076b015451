"""Joins several sources into one."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from dann.data.domain_pair import DomainPair
from dann.data.lazy_array import concatenate
from dann.data.parts import NAME_CLASSES

_NUM_COMPARED_ROWS = 256  # per target


def join_sources(pairs: Sequence[DomainPair]) -> DomainPair:
    """Joins pairs that share a target into one pair with all their sources.

    Every method trains on the sources together; `dann.MDAN` also learns to distinguish them.
    Batches contain equal parts of each source.

    Args:
        pairs: One pair per source, with the same target, input shape and classes.

    Returns:
        A pair whose `source_domain` is the index of the source of each training example.

    Raises:
        ValueError: If `pairs` is empty, a pair has several sources already, or targets, input
            shapes or classes differ. Only 256 rows of the targets are compared.

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
    signatures = [(p.target, p.input_shape, p.num_classes, p.class_names) for p in pairs]
    if not signatures or signatures.count(signatures[0]) < len(signatures):
        raise ValueError(
            "Expected pairs with the same target name, input shape, number of classes and class "
            f"names. Received: {signatures}. {NAME_CLASSES}"
        )
    if any(pair.source_domain is not None for pair in pairs):
        raise ValueError(
            "Expected pairs with a single source. Received: a pair of joined sources. Join all "
            "pairs in one call"
        )
    first = pairs[0]
    for pair in pairs[1:]:
        if not _are_equal(_read_target(pair), _read_target(first)):
            raise ValueError(
                "Expected pairs that share one target, with the same split and scaling. "
                f"Received: different target examples in the pair of {pair.source}. `csv_table` "
                "scales by the rows of its source too; use `arrays` with inputs that are scaled "
                "together"
            )
    sizes = [len(pair.source_train[1]) for pair in pairs]
    return dataclasses.replace(
        first,
        source=" + ".join(pair.source for pair in pairs),
        source_train=_join([pair.source_train for pair in pairs]),
        source_test=_join([pair.source_test for pair in pairs]),
        source_domain=np.repeat(range(len(pairs)), sizes),
        standardizer=None,  # the sources may have different statistics
    )


def _read_target(pair):
    """Returns inputs and known labels of the target."""
    columns = [pair.target_train, *pair.target_test, *(pair.target_labeled or ())]
    return [values for values in columns if values is not None]


def _are_equal(columns, other_columns):
    """Returns whether the lengths and some rows of all columns are equal."""
    if [len(values) for values in columns] != [len(values) for values in other_columns]:
        return False
    for values, other_values in zip(columns, other_columns, strict=True):
        # Evenly spaced rows, because lazy targets are slow to read.
        rows = np.linspace(0, len(values) - 1, _NUM_COMPARED_ROWS).astype(int)
        if not np.array_equal(values[rows], other_values[rows]):
            return False
    return True


def _join(examples):
    inputs, labels = zip(*examples, strict=True)
    return concatenate(inputs), np.concatenate(labels)
