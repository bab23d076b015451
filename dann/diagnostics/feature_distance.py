"""How far apart the domains' features are."""

from typing import Any

from dann.diagnostics.mmd import estimate, kernel_matrix, null_quantile
from dann.diagnostics.outputs import pair_outputs


def feature_distance(
    model: Any, data: Any, *, seed: int = 0, batch_size: int = 256
) -> dict[str, float]:
    """Measures the maximum mean discrepancy of both domains' features.

    - `mmd/squared`: the unbiased estimate with a Gaussian kernel; see `squared_mmd`. Healthy: falls
      towards `mmd/null`
    - `mmd/bandwidth`: the kernel's width, the median distance of all pairs
    - `mmd/null`: what 95% of the estimates stay below where the domains are dealt out at random

    Args:
        model: Model of `dann.adaptation`.
        data: `({"source": xs, "target": xt}, ys)`.
        seed: Seed of the random deals.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        Measurements by name.

    Raises:
        TypeError: If it is another model.
        ValueError: If a domain has fewer than 2 examples.

    Reference:
        - [Gretton et al., 2012](https://jmlr.org/papers/v13/gretton12a.html), equation 3 and
          section 5 (the null distribution).
    """
    features = pair_outputs(model, data, batch_size).features
    gram, sizes, bandwidth = kernel_matrix(features["source"], features["target"])
    return {
        "mmd/squared": estimate(gram, sizes),
        "mmd/bandwidth": bandwidth,
        "mmd/null": null_quantile(gram, sizes, seed),
    }
