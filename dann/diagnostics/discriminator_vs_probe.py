"""The live discriminator compared with a fresh one, a probe."""

import math
from typing import Any

import numpy as np

from dann.diagnostics.catalogue import ADVERSARIAL, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.pair_outputs import PairOutputs, matched_source, pair_outputs
from dann.diagnostics.instruments.probe import LEAST, distance_of, fresh_probe

SAME = 1e-6  # spread of the features below which they are the same for every example
CONSTANT = 1e-4  # deviation of the discriminator's logits below which they are all equal
APART = 0.35  # domain loss in nats below which the domains are apart; knowing nothing is .693
BEHIND = 0.5  # nats by which a live discriminator may lose more than a fresh one


def _near_probe(found):
    return APART, max(found.get("probe/loss", math.inf), APART) + BEHIND


@DIAGNOSTICS.register(
    "winning",
    models=ADVERSARIAL,
    quick=True,
    order=30,
    healthy=(
        HealthyRange(
            "features/spread",
            "Spread of the features",
            "Largest standard deviation of a feature over all examples, as a share of the largest "
            "feature. 0: the features are the same for every example.",
            low=SAME,
        ),
        HealthyRange(
            "domain/spread",
            "Spread of the discriminator's output",
            "Standard deviation over all examples. 0: it says the same for every example, and "
            "teaches nothing.",
            low=CONSTANT,
        ),
        HealthyRange(
            "domain/loss",
            "Loss of the live discriminator",
            "In nats; .693 is chance. Low: the domains are apart. Far above that of a fresh "
            "discriminator on the same features: this one is weak or overrun.",
            given=_near_probe,
            words=f"{APART:g} to probe/loss + {BEHIND:g}",
        ),
        HealthyRange(
            "probe/loss",
            "Loss of a fresh discriminator",
            "In nats, trained on the frozen features, tested on examples it has not seen. .693: "
            "the domains are alike. Towards 0: they are apart.",
            low=APART,
        ),
    ),
)
def discriminator_vs_probe(
    model: Any,
    data: Any,
    *,
    probe: str = "logistic",
    seed: int = 0,
    batch_size: int = 256,
) -> dict[str, float]:
    """Measures the live discriminator beside a fresh one that is trained on the features.

    A discriminator at chance means aligned features, or a dead discriminator. A fresh classifier,
    trained on half of the frozen features and tested on the other half, is at chance only in the
    first case.

    `docs/diagnostics.md` lists the measurements with their formulas and healthy values.

    The `domain/` measurements are missing for methods without a discriminator of domains.

    Args:
        data: As in every diagnostic; the probe needs a hundred examples of each domain or more.
        probe: `"logistic"` (default), or `"mlp"` for differences that are not linear.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If a domain has fewer than 4 examples, or an argument is out of range.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equation 3 and section
          5.1.4.
    """
    outputs = pair_outputs(model, data, batch_size)
    measured = {} if outputs.domain is None else _of_discriminator(outputs.domain)
    features = np.concatenate([outputs.features["source"], outputs.features["target"]])
    size = np.abs(features).max()
    measured["features/spread"] = float(features.std(axis=0).max() / size) if size else 0.0
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
