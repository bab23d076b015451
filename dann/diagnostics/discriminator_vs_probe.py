"""Compares the discriminator of a model with a newly trained probe."""

from typing import Any

import numpy as np

from dann.data.probes import probe_domains
from dann.diagnostics.outputs import pair_outputs


def discriminator_vs_probe(
    model: Any, data: Any, *, probe: str = "logistic", seed: int = 0
) -> dict[str, float]:
    """Compares the discriminator of a model with a probe that is newly trained on the features.

    An accuracy at chance means that the features are aligned, or that the discriminator does not
    learn. A new classifier of the features, tested on held-out examples, is at chance only in the
    first case.

    - `domain/loss`, `domain/accuracy`: cross-entropy in nats and accuracy of the
      discriminator, averaged over both domains; `domain/spread`: standard deviation of its logits.
      They are missing for methods without a discriminator of the domains.
    - `probe/loss`, `probe/accuracy`: cross-entropy and accuracy of the probe, see
      `dann.data.probes.probe_domains`; `probe/low`, `probe/high`: ends of Wilson's 95% interval of
      the accuracy
    - `probe/a_distance`: the proxy A-distance `2 (1 - 2 e)` with the error `e = 1 - accuracy`, or 0
      if `e` exceeds 0.5

    Args:
        model: Model of `dann.adaptation`.
        data: One batch, as in every diagnostic, with at least about a hundred examples per domain.
        probe: `"logistic"` (default), or `"mlp"` for nonlinear differences.
        seed: Seed of the probe. Defaults to `0`.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If a domain has fewer than 5 examples, or the probe is unknown.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equation 3 and section
          5.1.4.
    """
    outputs = pair_outputs(model, data)
    measurements = {}
    if outputs.domain is not None:
        # The domain labels are 0 for the source and 1 for the target.
        source, target = outputs.domain["source"], outputs.domain["target"]
        losses = np.logaddexp(0, source).mean(), np.logaddexp(0, -target).mean()
        measurements = {
            "domain/loss": float(np.mean(losses)),
            "domain/accuracy": float(np.mean([(source < 0).mean(), (target > 0).mean()])),
            "domain/spread": float(np.concatenate([source, target]).std(axis=0).max()),
        }
    separation = probe_domains(outputs.features["source"], outputs.features["target"], probe, seed)
    measurements |= {f"probe/{name}": value for name, value in separation._asdict().items()}
    # Proxy A-distance: 2 (1 - 2 error).
    distance = np.maximum(2 * (2 * separation.accuracy - 1), 0.0)  # NaN stays NaN
    return measurements | {"probe/a_distance": float(distance)}
