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
    gram, bandwidth = kernel_matrix(source, target)
    squared, null = with_null(gram, len(source), seed)
    measured = {"mmd/squared": squared, "mmd/bandwidth": bandwidth, "mmd/null": null}
    matched = matched_source(outputs, seed)
    if len(matched) >= 2:
        chosen = np.concatenate([matched, np.arange(len(source), len(gram))])
        found = with_null(gram[np.ix_(chosen, chosen)], len(matched), seed)
        measured["mmd/matched"], measured["mmd/matched_null"] = found
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
    >>> from dann.diagnostics.feature_distance import squared_mmd
    >>> round(squared_mmd(np.zeros((5, 1)), np.ones((5, 1)), bandwidth=1.0), 4)
    0.7869

    Reference:
        - [Gretton et al., 2012](https://jmlr.org/papers/v13/gretton12a.html), equation 3.
    """
    gram, _ = kernel_matrix(np.asarray(source), np.asarray(target), bandwidth)
    return float(estimates(gram, np.arange(len(gram))[:, None] < len(source))[0])


def kernel_matrix(
    source: np.ndarray, target: np.ndarray, bandwidth: float | None = None
) -> tuple[np.ndarray, float]:
    """Returns the kernel of all pairs with a diagonal of 0, and the bandwidth.

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
        return np.full((len(points),) * 2, np.nan), bandwidth or np.nan
    squares = cdist(points, points, "sqeuclidean")
    if bandwidth is None:
        median = float(np.median(squares[np.triu_indices(len(points), 1)]))
        bandwidth = float(np.sqrt(median)) or 1.0  # all points alike: any width will do
    gram = np.exp(-squares / (2 * bandwidth**2))
    np.fill_diagonal(gram, 0.0)
    return gram, bandwidth


def estimates(gram: np.ndarray, is_source: np.ndarray) -> np.ndarray:
    """Returns the estimate of `squared_mmd` for several ways to deal examples to the domains.

    Args:
        gram: The kernel of all pairs, with a diagonal of 0, `(n + m, n + m)`.
        is_source: Booleans `(n + m, ways)`, of which `n` are true in each way.
    """
    source, target = is_source.astype("float64"), (~is_source).astype("float64")
    n, m = source[:, 0].sum(), target[:, 0].sum()
    to_target = gram @ target
    within_source = np.sum(source * (gram @ source), axis=0) / (n * (n - 1))
    within_target = np.sum(target * to_target, axis=0) / (m * (m - 1))
    return within_source + within_target - 2 * np.sum(source * to_target, axis=0) / (n * m)


def with_null(gram: np.ndarray, num_source: int, seed: int) -> tuple[float, float]:
    """Returns the estimate and its 95% quantile for domains that are dealt at random.

    In `gram` the source comes first.
    """
    rng, true = np.random.default_rng(seed), np.arange(len(gram)) < num_source
    dealt = [rng.permutation(true) for _ in range(_DRAWS)]
    found = estimates(gram, np.stack([true, *dealt], axis=1))
    return float(found[0]), float(np.quantile(found[1:], 0.95))
