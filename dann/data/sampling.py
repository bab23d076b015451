"""The examples of a batch, computed from a seed and a position with NumPy alone."""

from typing import Any

import numpy as np

_ROUNDS_PER_BLOCK = 128  # the group orders of a block are drawn at once


class Sampler:
    """The endless order in which the examples of a domain are drawn.

    The example at a position depends only on the seed, the domain and the position, not on earlier
    draws, so reading can start at any position.

    Without groups, positions `0` to `n - 1` are one pass over the `n` examples, the next `n`
    positions are a second pass in a different order. With groups, each round draws one example of
    every group, and each group has its own passes, so a small group repeats more often. For
    example, with 2 groups, position 5 is index 1 of round 2. If `group_orders[2] = [1, 0]`, it
    draws from group 0; if group 0 has 2 examples, this is example 0 of the second pass over the
    group.

    Args:
        groups: The group of each example, `(n,)`; or the number of examples, for no groups.
        shuffle: Whether to draw the order of each pass, and of the groups in a round, at random.
        seed: Seed of the order, an integer of at least 0. The order of a seed may differ between
            versions of NumPy; see `numpy.random.Generator`.
        domain: Number of the domain, at least 0; domains with one seed have different orders.

    Example:

    >>> import numpy as np
    >>> from dann.data.sampling import Sampler
    >>> order = Sampler(3, shuffle=True, seed=0, domain=0)
    >>> for rows in order.examples(np.arange(6)).reshape(2, 3):
    ...     print(sorted(rows.tolist()))
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
        # The latest permutation by stream: 0 for the orders of groups, 1 + g for group g.
        self._cache: dict[int, tuple[int, np.ndarray]] = {}

    def examples(self, positions: np.ndarray) -> np.ndarray:
        """Returns the indices of the examples at these positions, both `(k,)`."""
        # With g groups, position p has index p % g in round p // g.
        rounds, indices_in_round = np.divmod(positions, len(self.members))
        groups = indices_in_round
        if len(self.members) > 1:
            groups = self._select_groups(rounds, indices_in_round)
        indices = np.empty(len(positions), np.int64)
        for group in np.unique(groups):
            in_group = np.flatnonzero(groups == group)
            # A group with n members draws example r % n of pass r // n in round r.
            passes, indices_in_pass = np.divmod(rounds[in_group], len(self.members[group]))
            for number in np.unique(passes):
                in_pass = passes == number
                order = self._get_pass_order(int(group), int(number))
                indices[in_group[in_pass]] = order[indices_in_pass[in_pass]]
        return indices

    def _select_groups(self, rounds, indices_in_round):
        blocks, rows = np.divmod(rounds, _ROUNDS_PER_BLOCK)
        groups = np.empty_like(indices_in_round)
        ordered = np.tile(np.arange(len(self.members)), (_ROUNDS_PER_BLOCK, 1))  # (rounds, groups)
        for block in np.unique(blocks):
            in_block = blocks == block
            orders = self._draw(0, int(block), lambda rng: rng.permuted(ordered, axis=1), ordered)
            groups[in_block] = orders[rows[in_block], indices_in_round[in_block]]
        return groups

    def _get_pass_order(self, group, number):
        members = self.members[group]
        return self._draw(1 + group, number, lambda rng: rng.permutation(members), members)

    def _draw(self, stream, number, permute, unshuffled):
        if not self.shuffle:
            return unshuffled
        cached = self._cache.get(stream)
        if cached is None or cached[0] != number:
            rng = np.random.default_rng([*self.key, stream, number])
            cached = self._cache[stream] = number, permute(rng)
        return cached[1]


def groups_to_balance(labels: Any, source_domain: Any, balanced: bool) -> np.ndarray:
    """Returns the group of each source example, for batches with equal parts of each group.

    A group is a domain, a class if `balanced`, or a class of a domain if both are used.

    Args:
        labels: Labels `(n,)` or `(n, 1)`.
        source_domain: The domain of each example, integers `(n,)`; or `None` for one domain.
        balanced: Whether classes are drawn equally often.

    Returns:
        Group numbers, integers `(n,)`.

    Raises:
        ValueError: If there is not one domain per example or, if `balanced`, one class.
    """
    columns = [] if source_domain is None else [source_domain]
    columns += [labels] if balanced else []
    if any(np.size(column) != len(labels) for column in columns):
        raise ValueError(
            "Expected one domain per source example as `source_domain`, and one class per example "
            f"with `balanced`. Received: shapes {[np.shape(column) for column in columns]} for "
            f"{len(labels)} examples. `np.argmax(labels, axis=-1)` converts one-hot labels"
        )
    if balanced and (np.asarray(labels) % 1).any():
        raise ValueError("Expected classes with `balanced`. Received: labels with fractions")
    keys = np.stack([np.reshape(column, -1) for column in columns])  # (1 or 2, n)
    return np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
