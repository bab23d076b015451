"""Domains of one array, of which one is the target."""

from typing import Any

import numpy as np

from dann.data.arrays import arrays
from dann.data.conversion import as_array
from dann.data.domain_pair import DomainPair
from dann.data.join_sources import join_sources


def leave_one_domain_out(
    inputs: Any, labels: Any, domains: Any, target: Any, **options: Any
) -> DomainPair:
    """Pairs one domain of an array, such as a subject, with all other domains as its sources.

    Args:
        inputs: Array `(n, ...)`; see `dann.data.arrays`.
        labels: Labels `(n,)`. A source may lack some of the classes.
        domains: The domain of each example, `(n,)`, as numbers or strings.
        target: The domain to leave out of the sources.
        **options: `test_share` and `seed` of `dann.data.arrays`.

    Returns:
        A pair whose sources are joined by `dann.data.join_sources`, in the order of their names.

    Raises:
        ValueError: If there is no other domain or no such target; also see `dann.data.arrays`.

    Example:

    >>> import numpy as np
    >>> from dann.data import leave_one_domain_out
    >>> x, y, subjects = np.random.rand(60, 4), np.arange(60) % 2, np.arange(60) // 20
    >>> [leave_one_domain_out(x, y, subjects, target).name for target in range(3)]
    ['1 + 2 → 0', '0 + 2 → 1', '0 + 1 → 2']
    """
    inputs, labels, domains = as_array(inputs, "inputs"), np.asarray(labels), np.asarray(domains)
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
    options |= {"target_name": str(target), "class_names": classes.astype(str).tolist()}
    pairs = [
        arrays(parts[name], parts[target], source_name=str(name), **options)
        for name in names
        if name != target
    ]
    return join_sources(pairs)
