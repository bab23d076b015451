"""What singular values say about a matrix."""

import numpy as np

_ZERO = 1e-6  # of the largest singular value; smaller ones are rounding


def effective_rank(singular_values: np.ndarray) -> np.ndarray:
    """Returns how many directions a matrix uses: a real number from 1 to their number.

    - `exp(H(p))` with `p = s / sum s` and the entropy `H`

    A matrix of zeros has 0.

    Args:
        singular_values: Along the last axis.

    Example:

    >>> import numpy as np
    >>> from dann.diagnostics.instruments.ranks import effective_rank
    >>> float(effective_rank(np.array([2.0, 2.0, 0.0]))).__round__(6)
    2.0

    Reference:
        - [Roy and Vetterli, 2007](https://ieeexplore.ieee.org/document/7098875), section 2.
    """
    values = np.asarray(singular_values, "float64")
    total = values.sum(axis=-1, keepdims=True)
    shares = values / np.where(total > 0, total, 1.0)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=-1)
    return np.where(total[..., 0] > 0, np.exp(entropy), 0.0)


def condition(singular_values: np.ndarray) -> np.ndarray:
    """Returns the ratio of the largest singular value to the smallest that is not 0.

    Those below a millionth of the largest count as 0. A matrix of zeros has 1.

    Args:
        singular_values: Along the last axis.
    """
    values = np.asarray(singular_values, "float64")
    largest = values.max(axis=-1)
    kept = np.where(values > _ZERO * largest[..., None], values, np.inf)
    smallest = kept.min(axis=-1)
    return np.where(largest > 0, largest / np.where(np.isfinite(smallest), smallest, 1.0), 1.0)


def rank_of_features(features: np.ndarray) -> dict[str, float]:
    """Returns how many directions features use.

    With the singular values of the centred features `(batch, num_features)`

    - `effective_rank`: see `effective_rank`.
    - `rank_share`: the same divided by the greatest possible, `min(batch - 1, num_features)`.
    - `top_share`: share of the variance along the first direction.
    - `still`: share of features that are the same for every example.

    Args:
        features: Array `(batch, num_features)`, at least 2 examples.

    Raises:
        ValueError: If there are fewer.
    """
    if len(features) < 2:
        raise ValueError(
            "The rank of features needs at least 2 examples of each domain. "
            f"Received: {len(features)}"
        )
    centred = np.asarray(features, "float64") - features.mean(axis=0, dtype="float64")
    values = np.linalg.svd(centred, compute_uv=False)
    rank = float(effective_rank(values))
    energy = float((values**2).sum())
    return {
        "effective_rank": rank,
        "rank_share": rank / min(len(features) - 1, features.shape[1]),
        "top_share": float(values[0] ** 2 / energy) if energy else 1.0,
        "still": float(np.mean(np.ptp(features, axis=0) == 0)),
    }
