"""The outputs of an adversarial model for a pair of domains, as arrays."""

import dataclasses
import functools
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import parts_of
from dann.adaptation.smooth_task import frozen
from dann.checks import check_integer
from dann.data.examples import strings_as_tensors
from dann.diagnostics.instruments.losses import check_adversarial, check_flat
from dann.diagnostics.instruments.vectors import to_numpy


@dataclasses.dataclass(frozen=True)
class PairOutputs:
    """Arrays by domain, `"source"` and `"target"`.

    Attributes:
        features: Features `(n, num_features)`.
        logits: Logits of the classes `(n, num_classes)`.
        domain: Logits of the discriminator `(n, k)`, above 0 for the target; `None` if the method
            has no such discriminator.
        labels: Labels of the source `(n,)`, also if they came as a single column `(n, 1)`.
    """

    features: dict[str, np.ndarray]
    logits: dict[str, np.ndarray]
    domain: dict[str, np.ndarray] | None
    labels: np.ndarray


def pair_outputs(model: Any, data: tuple, batch_size: int = 256) -> PairOutputs:
    """Runs the model on a pair in inference; the model does not change.

    It runs `batch_size` examples of the larger domain at a time, at least 1.
    """
    check_flat(check_adversarial(model, compiled=False))
    check_integer("batch_size", batch_size, 1)
    x, y = data
    arrays = keras.tree.map_structure(np.asarray, parts_of(x))
    sizes = [len(array) for array in keras.tree.flatten(arrays)]
    count = -(-max(sizes) // batch_size)
    runs = []
    for i in range(count):
        piece = functools.partial(_piece, number=i, count=count)
        with frozen(model):  # methods may draw noise
            part = strings_as_tensors(keras.tree.map_structure(piece, arrays))
            runs.append(_run(model, part))
    joined = {
        kind: {
            name: np.concatenate([run[kind][name] for run in runs]) for name in ("source", "target")
        }
        for kind in ("features", "logits", "domain")
        if all(run[kind] for run in runs)
    }
    labels = np.asarray(y)[: len(keras.tree.flatten(arrays["source"])[0])]
    if labels.ndim > 1 and labels.size == len(labels):
        labels = labels.reshape(-1)
    return PairOutputs(joined["features"], joined["logits"], joined.get("domain"), labels)


def _piece(array, number, count):
    return np.array_split(array, count)[number]


def _run(model: AdversarialModel, x) -> dict[str, dict]:
    extracted = model.extract(x, training=False)
    scores = None
    if model.reversal is not None:
        pair = model.batch_of(x, extracted, training=False)
        scores = model.domain_scores(pair, model.reversal, training=False)
    features = {name: to_numpy(part) for name, part in extracted.items()}
    # A method without an adversary leaves the target out.
    if "target" not in features:
        features["target"] = to_numpy(model.backbone(x["target"], training=False))
    logits = {
        name: to_numpy(model.label_head(features[name], training=False))
        for name in ("source", "target")
    }
    domain = {}
    if scores is not None:
        parts = pair.by_domain(scores)
        domain = dict(zip(("source", "target"), map(to_numpy, parts), strict=True))
    return {"features": features, "logits": logits, "domain": domain}


def matched_source(outputs: PairOutputs, seed: int = 0) -> np.ndarray:
    """Returns indices of examples of the source, in the class shares predicted for the target."""
    rng = np.random.default_rng(seed)
    kinds = [outputs.logits[domain].argmax(axis=1) for domain in ("source", "target")]
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
