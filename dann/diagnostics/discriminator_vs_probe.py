"""The live discriminator compared with a fresh one, a probe."""

from typing import Any

import numpy as np

from dann.data.probes import probe_domains
from dann.diagnostics.outputs import pair_outputs


def discriminator_vs_probe(
    model: Any, data: Any, *, probe: str = "logistic", seed: int = 0
) -> dict[str, float]:
    """Measures the live discriminator beside a fresh one that is trained on the features.

    A discriminator at chance means aligned features, or a dead discriminator. A fresh classifier
    of the frozen features, tested on examples that it was not trained on, is at chance only in the
    first case.

    - `domain/loss`, `domain/accuracy`, `domain/spread`: cross-entropy and accuracy of the live
      discriminator, each the mean of both domains', and the deviation of its logits. They are
      missing for methods without a discriminator of domains.
    - `probe/loss`, `probe/accuracy`: the same of the fresh one, see `dann.selection.probe_domains`;
      `probe/low`, `probe/high`, the ends of Wilson's 95% interval of the accuracy;
      `probe/a_distance`, the proxy A-distance `2 (1 - 2 e)` with the error `e = 1 - accuracy`, or
      0 if `e` exceeds .5

    Args:
        data: As in every diagnostic; the probe needs a hundred examples of each domain or more.
        probe: `"logistic"` (default), or `"mlp"` for differences that are not linear.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If a domain has fewer than 5 examples, or the probe is unknown.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equation 3 and section
          5.1.4.
    """
    outputs = pair_outputs(model, data)
    measured = {} if outputs.domain is None else _of_discriminator(**outputs.domain)
    source, target = outputs.features["source"], outputs.features["target"]
    found = probe_domains(source, target, probe, seed)
    measured |= {f"probe/{name}": value for name, value in found._asdict().items()}
    distance = np.maximum(2 * (2 * found.accuracy - 1), 0.0)  # NaN stays NaN
    return measured | {"probe/a_distance": float(distance)}


def _of_discriminator(source, target):
    losses = np.logaddexp(0, source).mean(), np.logaddexp(0, -target).mean()
    return {
        "domain/loss": float(np.mean(losses)),
        "domain/accuracy": float(np.mean([(source < 0).mean(), (target > 0).mean()])),
        "domain/spread": float(np.concatenate([source, target]).std(axis=0).max()),
    }
