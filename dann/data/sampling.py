"""Which examples a batch holds, computed from a seed and a position: NumPy alone."""

from typing import Any

import numpy as np

_BLOCK = 128  # rounds whose turns are drawn at once


class Sampler:
    """The endless order in which the examples of a domain are drawn.

    Which example stands at a position depends on the seed, the domain and the position alone, not
    on what was drawn before. So reading may start anywhere.

    Without groups, positions `0` to `n - 1` are one pass over the `n` examples, the next `n`
    positions another pass in another order. With groups, each round draws one example of every
    group, and each group has passes of its own. So a small group repeats more often.

    Args:
        groups: The group of each example, `(n,)`, or the number of examples if all are drawn alike.
        shuffle: Whether to draw in a random order: each pass, and the turns within a round.
        seed: Seed of the order, an integer of at least 0. The order of a seed may differ between
            versions of NumPy; see `numpy.random.Generator`.
        domain: Number that tells the domains of one seed apart, at least 0.

    Example:

    >>> import numpy as np
    >>> from dann.data.sampling import Sampler
    >>> order = Sampler(3, shuffle=True, seed=0, domain=0)
    >>> for one_pass in order.examples(np.arange(6)).reshape(2, 3):
    ...     print(sorted(one_pass.tolist()))
    [0, 1, 2]
    [0, 1, 2]
    """

    def __init__(self, groups: int | np.ndarray, shuffle: bool, seed: int, domain: int):
        if isinstance(groups, int):
            self.members = [np.arange(groups)]
        else:
            self.members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        self.shuffle = shuffle
        self.key = seed, domain
        # The latest draw of each group, and of the turns.
        self._drawn: dict[int, tuple[int, np.ndarray]] = {}

    def examples(self, positions: np.ndarray) -> np.ndarray:
        """Returns the indices of the examples at these positions, both `(k,)`."""
        rounds, places = np.divmod(positions, len(self.members))
        groups = places if len(self.members) == 1 else self._turns(rounds, places)
        chosen = np.empty(len(positions), np.int64)
        for group in np.unique(groups):
            its = np.flatnonzero(groups == group)
            passes, places = np.divmod(rounds[its], len(self.members[group]))
            for one in np.unique(passes):
                now = passes == one
                chosen[its[now]] = self._pass(int(group), int(one))[places[now]]
        return chosen

    def _turns(self, rounds, places):
        blocks, rows = np.divmod(rounds, _BLOCK)
        groups = np.empty_like(places)
        for block in np.unique(blocks):
            now = blocks == block
            groups[now] = self._block_of_turns(int(block))[rows[now], places[now]]
        return groups

    def _block_of_turns(self, block):
        turns = np.tile(np.arange(len(self.members)), (_BLOCK, 1))
        return self._draw(0, block, lambda rng: rng.permuted(turns, axis=1), turns)

    def _pass(self, group, number):
        members = self.members[group]
        return self._draw(1 + group, number, lambda rng: rng.permutation(members), members)

    def _draw(self, what, number, drawn_by, in_order):
        if not self.shuffle:
            return in_order
        known = self._drawn.get(what)
        if known is None or known[0] != number:
            rng = np.random.default_rng([*self.key, what, number])
            known = self._drawn[what] = number, drawn_by(rng)
        return known[1]


def groups_to_balance(labels: Any, source_domain: Any, balanced: bool) -> np.ndarray:
    """Returns the group of each source example, where batches draw groups in equal parts.

    A group is a domain, a class if `balanced`, or with both a class of a domain.

    Args:
        labels: Labels `(n,)` or `(n, 1)`.
        source_domain: Number of each example's domain, integers `(n,)`, or, if `balanced`, `None`.
        balanced: Whether classes are drawn in equal parts.

    Returns:
        Integers `(n,)`, alike within a group.

    Raises:
        ValueError: If there is not one domain or, to be balanced, one label for each example.
    """
    columns = {} if source_domain is None else {"source_domain": np.asarray(source_domain)}
    if balanced:
        columns["balanced"] = labels
    for name, column in columns.items():
        whole = name == "balanced" or (column.ndim == 1 and column.dtype.kind in "iu")
        if column.size != len(labels) or not whole:
            raise ValueError(
                f"Argument `{name}` needs one whole number for each source example, as "
                "`np.argmax(labels, axis=-1)` makes of one-hot labels. "
                f"Received: {column.dtype} {column.shape}"
            )
    both = np.stack([column.reshape(-1) for column in columns.values()])
    return np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
