"""How far apart the domains' features are."""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from dann.checks import check_number
from dann.diagnostics.outputs import matched_source, pair_outputs

_DRAWS = 200  # of the null distribution


def feature_distance(model: Any, data: Any, *, seed: int = 0) -> dict[str, float]:
    """Measures the maximum mean discrepancy of both domains' features.

    - `mmd/squared`: see `squared_mmd`; `mmd/bandwidth`, the width of its kernel
    - `mmd/null`: the 95% quantile of the same for domains that are assigned at random
    - `mmd/matched`, `mmd/matched_null`: both with source examples drawn in the class shares that
      the model predicts for the target, if there are enough

    The arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If a domain has fewer than 2 examples.

    Reference:
        - [Gretton et al., 2012](https://jmlr.org/papers/v13/gretton12a.html), equation 3 and
          section 5 (the null distribution).
    """
    outputs = pair_outputs(model, data)
    source, target = outputs.features["source"], outputs.features["target"]
    gram, sizes, bandwidth = kernel_matrix(source, target)
    measured = {
        "mmd/squared": estimate(gram, sizes),
        "mmd/bandwidth": bandwidth,
        "mmd/null": null_quantile(gram, sizes, seed),
    }
    matched = matched_source(outputs, seed)
    if len(matched) >= 2:
        chosen = np.concatenate([matched, sizes[0] + np.arange(sizes[1])])
        gram, sizes = gram[np.ix_(chosen, chosen)], (len(matched), sizes[1])
        measured["mmd/matched"] = estimate(gram, sizes)
        measured["mmd/matched_null"] = null_quantile(gram, sizes, seed)
    return measured


def squared_mmd(source: Any, target: Any, bandwidth: float | None = None) -> float:
    """Returns the unbiased estimate of the squared maximum mean discrepancy.

    With the kernel `k(a, b) = exp(-||a - b||^2 / (2 bandwidth^2))`, over `n` and `m` examples,

    - `sum_{i != j} k(s_i, s_j) / (n (n - 1)) + sum_{i != j} k(t_i, t_j) / (m (m - 1))
      - 2 sum_{i, j} k(s_i, t_j) / (n m)`

    Healthy: falls in training towards 0. If the distributions are the same, it scatters around 0.

    Args:
        source: Features `(n, d)` of the source, at least 2.
        target: Features `(m, d)` of the target, at least 2.
        bandwidth: Width of the kernel, above 0. Defaults to the median distance of all pairs.

    Raises:
        ValueError: If a domain has too few examples, or the bandwidth is not above 0.

    Example:

    >>> import numpy as np
    >>> from dann.diagnostics import squared_mmd
    >>> round(squared_mmd(np.zeros((5, 1)), np.ones((5, 1)), bandwidth=1.0), 4)
    0.7869

    Reference:
        - [Gretton et al., 2012](https://jmlr.org/papers/v13/gretton12a.html), equation 3.
    """
    gram, sizes, _ = kernel_matrix(np.asarray(source), np.asarray(target), bandwidth)
    return estimate(gram, sizes)


def kernel_matrix(
    source: np.ndarray, target: np.ndarray, bandwidth: float | None = None
) -> tuple[np.ndarray, tuple[int, int], float]:
    """Returns the kernel of all pairs with a diagonal of 0, the sizes and the bandwidth.

    If a feature is not finite, all of the kernel is NaN.
    """
    sizes = len(source), len(target)
    if min(sizes) < 2:
        raise ValueError(
            f"The discrepancy needs at least 2 examples of each domain. Received: {sizes}"
        )
    if bandwidth is not None:
        check_number("bandwidth", bandwidth, 0, above=True)
    points = np.concatenate([source, target]).astype("float64")
    if not np.isfinite(points).all():
        return np.full((len(points),) * 2, np.nan), sizes, bandwidth or np.nan
    squares = cdist(points, points, "sqeuclidean")
    if bandwidth is None:
        median = float(np.median(squares[np.triu_indices(len(points), 1)]))
        bandwidth = float(np.sqrt(median)) or 1.0  # all points alike: any width will do
    gram = np.exp(-squares / (2 * bandwidth**2))
    np.fill_diagonal(gram, 0.0)
    return gram, sizes, bandwidth


def estimate(gram: np.ndarray, sizes: tuple[int, int]) -> float:
    """Returns the estimate of `squared_mmd` from the kernel of all pairs."""
    return float(_statistic(gram, np.repeat([1.0, 0.0], sizes)[:, None], sizes)[0])


def null_quantile(gram: np.ndarray, sizes: tuple[int, int], seed: int) -> float:
    """Returns the 95% quantile of the estimate for domains that are assigned at random."""
    rng = np.random.default_rng(seed)
    member = np.repeat([1.0, 0.0], sizes)
    dealt = np.stack([rng.permutation(member) for _ in range(_DRAWS)], axis=1)
    return float(np.quantile(_statistic(gram, dealt, sizes), 0.95))


def _statistic(gram, member, sizes):
    """Returns the estimate for each column of `member`: 1 for the source and 0 for the target."""
    n, m = sizes
    others = 1 - member
    within_source = np.sum(member * (gram @ member), axis=0) / (n * (n - 1))
    to_target = gram @ others
    within_target = np.sum(others * to_target, axis=0) / (m * (m - 1))
    return within_source + within_target - 2 * np.sum(member * to_target, axis=0) / (n * m)
