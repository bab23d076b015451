"""Measures how far apart the features of both domains are."""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from dann.diagnostics.outputs import pair_outputs, select_matched_source_rows

_PERMUTATIONS = 200  # of the null distribution


def feature_distance(model: Any, data: Any, *, seed: int = 0) -> dict[str, float]:
    """Measures the maximum mean discrepancy of the features of both domains.

    With the kernel `k(a, b) = exp(-||a - b||^2 / (2 bandwidth^2))`, `n` source features `s` and `m`
    target features `t`:

    - `mmd/squared`: the unbiased estimate `sum_{i != j} k(s_i, s_j) / (n (n - 1)) +
      sum_{i != j} k(t_i, t_j) / (m (m - 1)) - 2 sum_{i, j} k(s_i, t_j) / (n m)`, which scatters
      around 0 if the distributions are equal
    - `mmd/bandwidth`: the median distance of all pairs of examples
    - `mmd/null`: the 95% quantile of the estimate for a random assignment to the domains
    - `mmd/matched`, `mmd/matched_null`: estimate and quantile for source examples that are drawn
      with the class proportions predicted for the target; missing if there are fewer than 2

    Args:
        model: Model of `dann.adaptation`.
        data: One batch, as in every diagnostic.
        seed: Seed of the random assignments and the drawn examples. Defaults to `0`.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If a domain has fewer than 2 examples.

    Reference:
        - [Gretton et al., 2012](https://jmlr.org/papers/v13/gretton12a.html), equation 3 and
          section 5 (the null distribution).
    """
    outputs = pair_outputs(model, data)
    source, target = outputs.features["source"], outputs.features["target"]
    gram, bandwidth = kernel_matrix(source, target)
    squared, null = estimate_with_null(gram, len(source), seed)
    measurements = {"mmd/squared": squared, "mmd/bandwidth": bandwidth, "mmd/null": null}
    matched = select_matched_source_rows(outputs, seed)
    if len(matched) >= 2:
        rows = np.concatenate([matched, np.arange(len(source), len(gram))])
        squared, null = estimate_with_null(gram[np.ix_(rows, rows)], len(matched), seed)
        measurements |= {"mmd/matched": squared, "mmd/matched_null": null}
    return measurements


def kernel_matrix(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns the kernel of all pairs `(n + m, n + m)` with a diagonal of 0, and the bandwidth.

    If a feature is not finite, all values of the kernel are NaN.
    """
    sizes = len(source), len(target)
    if min(sizes) < 2:
        raise ValueError(f"Expected at least 2 examples of each domain. Received: {sizes}")
    points = np.concatenate([source, target]).astype("float64")
    if not np.isfinite(points).all():
        return np.full((len(points),) * 2, np.nan), np.nan
    squares = cdist(points, points, "sqeuclidean")
    median = float(np.median(squares[np.triu_indices(len(points), 1)]))
    bandwidth = float(np.sqrt(median)) or 1.0  # any bandwidth works for equal points
    gram = np.exp(-squares / (2 * bandwidth**2))
    np.fill_diagonal(gram, 0.0)
    return gram, bandwidth


def estimate_with_null(gram: np.ndarray, num_source: int, seed: int) -> tuple[float, float]:
    """Returns the estimate and its 95% quantile for random assignments to the domains.

    Args:
        gram: The kernel of all pairs, the source first, with a diagonal of 0.
        num_source: Number of source examples.
        seed: Seed of the assignments.
    """
    rng, assignment = np.random.default_rng(seed), np.arange(len(gram)) < num_source
    permuted = [rng.permutation(assignment) for _ in range(_PERMUTATIONS)]
    is_source = np.stack([assignment, *permuted], axis=1)  # (n + m, 1 + permutations)
    source, target = is_source.astype("float64"), (~is_source).astype("float64")
    n, m = num_source, len(gram) - num_source
    # The three sums of equation 3 (Gretton et al., 2012), for all assignments at once.
    to_target = gram @ target
    within_source = np.sum(source * (gram @ source), axis=0) / (n * (n - 1))
    within_target = np.sum(target * to_target, axis=0) / (m * (m - 1))
    estimates = within_source + within_target - 2 * np.sum(source * to_target, axis=0) / (n * m)
    return float(estimates[0]), float(np.quantile(estimates[1:], 0.95))
