"""How far apart the domains' features are."""

from typing import Any

import numpy as np

from dann.diagnostics.catalogue import ADVERSARIAL, DIAGNOSTICS
from dann.diagnostics.instruments.mmd import estimate, kernel_matrix, null_quantile
from dann.diagnostics.instruments.pair_outputs import matched_source
from dann.diagnostics.instruments.passes import Passes
from dann.diagnostics.instruments.probe import LEAST

DIFFERENT = 4, 0.05  # `mmd/squared` in multiples of its null quantile, and alone


@DIAGNOSTICS.register(
    "distance",
    summary="Measures the maximum mean discrepancy of both domains' features.",
    models=ADVERSARIAL,
    quick=True,
    order=40,
)
def feature_distance(
    model: Any,
    data: Any,
    *,
    seed: int = 0,
    batch_size: int = 256,
    passes: Passes | None = None,
) -> dict[str, float]:
    """Measures the maximum mean discrepancy of both domains' features.

    - `mmd/squared`: the unbiased estimate with a Gaussian kernel; see `squared_mmd`. Healthy: falls
      towards `mmd/null`
    - `mmd/bandwidth`: the kernel's width, the median distance of all pairs
    - `mmd/null`: the 95% quantile of the estimate when the domains are dealt out at random
    - `mmd/matched`, `mmd/matched_null`: the same, with the source's examples drawn so that their
      classes have the shares that the target is predicted to have; missing if there are fewer than
      4 of them

    Args:
        model: Model of `dann.adaptation`.
        data: `({"source": xs, "target": xt}, ys)`.
        seed: Seed of the random deals.
        batch_size: Inputs at a time. Defaults to `256`.
        passes: Forward passes that `check` or `measure` has run on these data; they give it.

    Returns:
        Measurements by name.

    Raises:
        TypeError: If it is another model.
        ValueError: If a domain has fewer than 2 examples.

    Reference:
        - [Gretton et al., 2012](https://jmlr.org/papers/v13/gretton12a.html), equation 3 and
          section 5 (the null distribution).
    """
    outputs = (passes or Passes(model, data)).outputs(batch_size)
    source, target = outputs.features["source"], outputs.features["target"]
    gram, sizes, bandwidth = kernel_matrix(source, target)
    measured = {
        "mmd/squared": estimate(gram, sizes),
        "mmd/bandwidth": bandwidth,
        "mmd/null": null_quantile(gram, sizes, seed),
    }
    matched = matched_source(outputs, seed)
    if len(matched) >= LEAST:
        chosen = np.concatenate([matched, sizes[0] + np.arange(sizes[1])])
        gram, sizes = gram[np.ix_(chosen, chosen)], (len(matched), sizes[1])
        measured["mmd/matched"] = estimate(gram, sizes)
        measured["mmd/matched_null"] = null_quantile(gram, sizes, seed)
    return measured
