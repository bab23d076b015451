"""The outputs of an adversarial model for a pair of domains, as arrays."""

from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation.prediction import predict
from dann.adaptation.preserve_state import preserve_state
from dann.diagnostics.passes import DOMAINS, adversarial, as_tensors, to_numpy


class PairOutputs(NamedTuple):
    """Arrays by domain, `"source"` and `"target"`.

    Attributes:
        features: Features `(n, num_features)`.
        logits: Logits of the classes `(n, num_classes)`.
        domain: Logits of the discriminator `(n, k)`, above 0 for the target; `None` if the method
            has no such discriminator.
    """

    features: dict[str, np.ndarray]
    logits: dict[str, np.ndarray]
    domain: dict[str, np.ndarray] | None = None


def pair_outputs(model: Any, data: tuple) -> PairOutputs:
    """Runs the model on a pair in inference; the model does not change."""
    adversarial(model, compiled=False, flat=True)
    x = data[0]
    with preserve_state(model):  # methods may draw noise
        features = {name: _features(model.backbone, x[name]) for name in DOMAINS}
        heads_of = as_tensors({name: part.astype("float32") for name, part in features.items()})
        logits = {k: to_numpy(model.label_head(part)) for k, part in heads_of.items()}
        batch = model.make_batch(x, heads_of, training=False)
        scores = model.domain_scores(batch, model.reversal, training=False)
    if scores is None:
        return PairOutputs(features, logits)
    by_domain = map(to_numpy, batch.split_domains(scores))
    return PairOutputs(features, logits, dict(zip(DOMAINS, by_domain, strict=True)))


def _features(backbone, inputs):
    arrays = keras.tree.map_structure(np.asarray, inputs)
    return predict(backbone, arrays).astype("float64")


def matched_source(outputs: PairOutputs, seed: int = 0) -> np.ndarray:
    """Returns indices of examples of the source, in the class shares predicted for the target."""
    rng = np.random.default_rng(seed)
    kinds = [outputs.logits[domain].argmax(axis=1) for domain in DOMAINS]
    shares = np.bincount(kinds[1], minlength=outputs.logits["source"].shape[1])
    there = np.bincount(kinds[0], minlength=len(shares))
    # A class of a few would leave almost no examples of the others.
    shares[shares < shares.max() / 20] = 0
    # Without replacement, because no example may be in both halves of a probe.
    scale = min((there[k] / n for k, n in enumerate(shares) if n), default=0.0)
    drawn = [
        rng.permutation(np.flatnonzero(kinds[0] == k))[: int(scale * n)]
        for k, n in enumerate(shares)
    ]
    return np.concatenate(drawn)
