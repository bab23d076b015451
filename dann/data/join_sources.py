"""Pairs with several sources."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.data.arrays import arrays
from dann.data.conversion import as_array, reject_missing
from dann.data.domain_pair import DomainPair
from dann.data.labels import NAME_CLASSES
from dann.data.lazy_array import concatenate


def join_sources(pairs: Sequence[DomainPair]) -> DomainPair:
    """Joins pairs that share a target into one pair with all their sources.

    Batches contain equal parts of each source. `dann.MDAN` has a discriminator per source; other
    methods treat the sources as one domain. The result has no `standardizer`, because the sources
    may have different statistics: transform new target examples with the standardizer of a pair.

    Args:
        pairs: One pair per source, with the same target, input shape, columns and classes.

    Returns:
        A pair whose `source_domain` is the index of the source of each training example.

    Raises:
        TypeError: If the argument is not a list of pairs.
        ValueError: If `pairs` is empty, a pair has several sources already, or targets, input
            shapes or classes differ. Only 64 training examples of the targets are compared.

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
    is_list = isinstance(pairs, Sequence)
    if not (is_list and all(isinstance(pair, DomainPair) for pair in pairs)):
        received = pairs if is_list else (pairs,)
        raise TypeError(
            "Expected one list of pairs, such as `join_sources([first, second])` with pairs of "
            f"`dann.data.arrays`. Received: {', '.join(type(x).__name__ for x in received)}"
        )
    signatures = [
        (p.target, p.input_shape, p.num_classes, p.class_names, *p.columns) for p in pairs
    ]
    is_joined = any(pair.source_domain is not None for pair in pairs)
    if is_joined or not signatures or signatures.count(signatures[0]) < len(signatures):
        raise ValueError(
            "Expected pairs of a single source with the same target name, input shape, number of "
            "classes, class names and data frame columns. Received: the sources "
            f"{[pair.source for pair in pairs]} with {signatures}. {NAME_CLASSES}"
        )
    first = pairs[0]
    for pair in pairs[1:]:
        if pair.identity["target"] != first.identity["target"]:
            raise ValueError(
                "Expected pairs that share one target, with the same split and scaling. "
                f"Received: different target examples in the pair of {pair.source}. `csv_table` "
                "scales by the rows of its source too; use `arrays` with inputs that are scaled "
                "with the same statistics"
            )
    return dataclasses.replace(
        first,
        source=" + ".join(pair.source for pair in pairs),
        source_train=_join([pair.source_train for pair in pairs]),
        source_test=_join([pair.source_test for pair in pairs]),
        source_domain=np.repeat(range(len(pairs)), [len(pair.source_train[1]) for pair in pairs]),
        standardizer=None,  # the sources may have different statistics
        encoding=None,
    )


def leave_one_domain_out(
    inputs: Any, labels: Any, domains: Any, target: Any, **options: Any
) -> DomainPair:
    """Pairs one domain of an array, such as a subject, with all other domains as its sources.

    Args:
        inputs: Array `(n, ...)`; see `dann.data.arrays`.
        labels: Labels `(n,)`. A source may lack some of the classes.
        domains: The domain of each example, `(n,)`, as numbers or strings.
        target: The domain to leave out of the sources.
        **options: `test_share`, `seed`, `class_names` and `task` of `dann.data.arrays`. Names are
            required if the target has a class that all sources lack. Defaults to the classes of the
            sources.

    Returns:
        A pair whose sources are joined by `dann.data.join_sources`, in the order of their names.

    Raises:
        ValueError: If a domain is NaN or `None`, or there is no other domain or no such target;
            also see `dann.data.arrays`.

    Example:

    >>> import numpy as np
    >>> from dann.data import leave_one_domain_out
    >>> x, y, subjects = np.random.rand(60, 4), np.arange(60) % 2, np.arange(60) // 20
    >>> folds = [leave_one_domain_out(x, y, subjects, target) for target in range(3)]
    >>> [fold.name for fold in folds]  # `dann.compare(folds, ...)` makes one table of all folds
    ['1 + 2 → 0', '0 + 2 → 1', '0 + 1 → 2']
    """
    if not hasattr(inputs, "columns"):  # data frames keep their columns
        inputs = as_array(inputs, "inputs")
    reject_missing(domains, "domain")
    labels, domains = np.asarray(labels), np.asarray(domains)
    names = np.unique(domains).tolist()
    if target not in names or len(names) < 2 or domains.shape != (len(inputs),):
        raise ValueError(
            "Expected the domain of each example, at least two domains, and one of them as "
            f"`target`. Received: {len(inputs)} examples, domains of shape {domains.shape} with "
            f"the values {names[:20]}, and target={target!r}"
        )
    parts = {name: (inputs[domains == name], labels[domains == name]) for name in names}
    classes = np.unique(labels[domains != target])
    if classes.dtype.kind in "biu":  # every number up to the largest is a class
        classes = np.arange(int(classes.max()) + 1)
    if classes.dtype.kind == "f":
        options = {"task": "regression" if (classes % 1).any() else None, **options}
    elif options.get("task") != "regression":
        options = {"class_names": classes.astype(str).tolist(), **options}
    options["target_name"] = str(target)
    pairs = [
        arrays(parts[name], parts[target], source_name=str(name), **options)
        for name in names
        if name != target
    ]
    return join_sources(pairs)


def _join(examples):
    inputs, labels = zip(*examples, strict=True)
    return concatenate(inputs), np.concatenate(labels)
