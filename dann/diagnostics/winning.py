"""Who is winning: the live discriminator beside a fresh one."""

from typing import Any

import numpy as np

from dann.diagnostics.instruments.probe import LEAST, distance_of, fresh_probe
from dann.diagnostics.outputs import PairOutputs, matched_source, pair_outputs


def who_is_winning(
    model: Any, data: Any, *, probe: str = "logistic", seed: int = 0, batch_size: int = 256
) -> dict[str, float]:
    """Measures the live discriminator, and beside it a fresh one that is trained on the features.

    A discriminator at chance means aligned features, or a discriminator that is dead. A fresh
    classifier, trained on half of the frozen features and tested on the other half, tells the two
    apart: it fails in the first case alone.

    With `z` the discriminator's logit, above 0 for the target,

    - `domain/loss = (mean_s log(1 + e^z) + mean_t log(1 + e^-z)) / 2`, in nats; at chance
      `log 2 = .693`
    - `domain/accuracy`: the mean of both domains' accuracies. Healthy: above .5 early, and
      falling towards it
    - `domain/spread`: the deviation of `z` over all examples. Healthy: above 0; a discriminator of
      constant output, such as one that ends in a softmax over one unit, has 0
    - `probe/accuracy`, `probe/loss`, `probe/standard_error`: of the fresh classifier; see
      `fresh_probe` of its instruments. Healthy: towards .5 as training goes on
    - `probe/a_distance = 2 (1 - 2 e)`, with `e = 1 - probe/accuracy` and at least 0; healthy:
      towards 0
    - `probe/matched_accuracy`, `probe/matched_loss`: the same, with the source's examples drawn so
      that their classes have the shares that the target is predicted to have; 1 and 0 where there
      are too few. Where the domains match so and do not without, the target looks like the source,
      but for its classes

    The `domain/` measurements are missing for methods without a discriminator of domains.

    Args:
        model: Model of `dann.adaptation`.
        data: `({"source": xs, "target": xt}, ys)`; some hundred examples of each domain make the
            probe worth its name.
        probe: `"logistic"` (default) or `"mlp"`; see `fresh_probe` of its instruments.
        seed: Seed of the probe's halves.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        Measurements by name.

    Raises:
        TypeError: If it is another model.
        ValueError: If a domain has fewer than 4 examples, or an argument is out of range.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equation 3 and section
          5.1.4.
    """
    outputs = pair_outputs(model, data, batch_size)
    measured = {} if outputs.domain is None else _of_discriminator(outputs.domain)
    return measured | _of_probe(outputs, probe, seed)


def _of_probe(outputs: PairOutputs, probe: str, seed: int) -> dict[str, float]:
    source, target = outputs.features["source"], outputs.features["target"]
    found = fresh_probe(source, target, probe, seed)
    measured = {f"probe/{name}": value for name, value in found.items()}
    measured["probe/a_distance"] = distance_of(found["accuracy"])
    matched = source[matched_source(outputs, seed)]
    enough = len(matched) >= LEAST
    found = fresh_probe(matched, target, probe, seed) if enough else {"accuracy": 1.0, "loss": 0.0}
    measured["probe/matched_accuracy"] = found["accuracy"]
    measured["probe/matched_loss"] = found["loss"]
    return measured


def _of_discriminator(domain: dict[str, np.ndarray]) -> dict[str, float]:
    source, target = domain["source"], domain["target"]
    losses = np.logaddexp(0, source), np.logaddexp(0, -target)
    right = source < 0, target > 0
    return {
        "domain/loss": float(np.mean([loss.mean() for loss in losses])),
        "domain/accuracy": float(np.mean([of_domain.mean() for of_domain in right])),
        "domain/spread": float(np.concatenate([source, target]).std(axis=0).max()),
    }
