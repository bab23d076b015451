"""Several sources as one."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from dann.data.domain_pair import DomainPair
from dann.data.lazy_arrays import Joined


def several_sources(pairs: Sequence[DomainPair]) -> DomainPair:
    """Joins pairs that share a target into one pair with all their sources.

    Every method trains on the sources together; `dann.MDAN` also learns to tell them apart. Batches
    hold equal parts of each.

    Args:
        pairs: One pair for each source, with the same target, inputs and classes.

    Returns:
        A pair with `source_domain`: for each training example, the index of its pair in `pairs`.

    Raises:
        ValueError: If `pairs` is empty, or their targets, inputs or classes differ.

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
    if any(len(pair.target_train) != len(first.target_train) for pair in pairs):
        raise ValueError(
            f"Pairs with several sources must split {first.target} alike. Received: "
            f"{[len(pair.target_train) for pair in pairs]} examples to train on"
        )
    sizes = [len(pair.source_train[1]) for pair in pairs]
    return dataclasses.replace(
        first,
        source=" + ".join(pair.source for pair in pairs),
        source_train=_joined([pair.source_train for pair in pairs]),
        source_test=_joined([pair.source_test for pair in pairs]),
        source_domain=np.repeat(np.arange(len(pairs)), sizes),
    )


def _joined(examples):
    inputs, labels = zip(*examples, strict=True)
    in_memory = all(isinstance(part, np.ndarray) for part in inputs)
    return np.concatenate(inputs) if in_memory else Joined(inputs), np.concatenate(labels)
