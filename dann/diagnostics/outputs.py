"""What an adversarial model gives for a pair of domains, as arrays."""

import dataclasses
from typing import Any

import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.forward_pass import parts_of
from dann.diagnostics.modes import unchanged
from dann.diagnostics.objective import check_adversarial
from dann.diagnostics.taps import replaced, to_numpy


@dataclasses.dataclass(frozen=True)
class PairOutputs:
    """Arrays by domain, `"source"` and `"target"`.

    Attributes:
        features: Features `(n, num_features)`.
        logits: Logits of the classes `(n, num_classes)`.
        domain: Logits of the discriminator `(n, k)`, above 0 for the target; `None` where the
            method has no such discriminator.
        labels: Labels of the source `(n,)`; a single column `(n, 1)` comes as this too.
    """

    features: dict[str, np.ndarray]
    logits: dict[str, np.ndarray]
    domain: dict[str, np.ndarray] | None
    labels: np.ndarray


def pair_outputs(model: Any, data: tuple, batch_size: int = 256) -> PairOutputs:
    """Runs the model on a pair, not in training, a part at a time; nothing of it changes.

    Args:
        model: Model of `dann.adaptation`.
        data: A pair of inputs, and labels.
        batch_size: Inputs of the larger domain at a time, at least 1.

    Raises:
        TypeError: If it is another model.
        ValueError: If `batch_size` is below 1.
    """
    check_adversarial(model, compiled=False)
    if batch_size < 1:
        raise ValueError(f"Argument `batch_size` must be at least 1. Received: {batch_size}")
    x, y = data
    arrays = {name: np.asarray(part) for name, part in parts_of(x).items()}
    count = -(-max(len(array) for array in arrays.values()) // batch_size)
    pieces = {name: np.array_split(array, count) for name, array in arrays.items()}
    runs = []
    for i in range(count):
        with unchanged(model):  # methods may draw noise
            runs.append(_run(model, {name: parts[i] for name, parts in pieces.items()}))
    joined = {
        kind: {
            name: np.concatenate([run[kind][name] for run in runs]) for name in ("source", "target")
        }
        for kind in ("features", "logits", "domain")
        if all(run[kind] for run in runs)
    }
    labels = np.asarray(y)[: len(arrays["source"])]
    if labels.ndim > 1 and labels.size == len(labels):
        labels = labels.reshape(-1)
    return PairOutputs(joined["features"], joined["logits"], joined.get("domain"), labels)


def _run(model: AdversarialModel, x) -> dict[str, dict]:
    seen = {}
    extract = model.extract

    def watched(inputs, training):
        seen.update(extract(inputs, training))
        return dict(seen)

    with replaced([(model, "extract", watched)]):
        outputs = model(x, training=False)
    features = {name: to_numpy(seen[name]) for name in seen}
    # A method without an adversary leaves the target out.
    if "target" not in features:
        features["target"] = to_numpy(model.backbone(x["target"], training=False))
    logits = {
        name: to_numpy(model.label_head(value, training=False)) for name, value in features.items()
    }
    size = len(features["source"])
    domain = {}
    if "domain/logits" in outputs:
        both = to_numpy(outputs["domain/logits"])
        domain = {"source": both[:size], "target": both[size:]}
    elif "source/domain_logits" in outputs and outputs["source/domain_logits"].shape[-1] == 1:
        domain = {name: to_numpy(outputs[f"{name}/domain_logits"]) for name in ("source", "target")}
    return {"features": features, "logits": logits, "domain": domain}


def matched_source(outputs: PairOutputs, seed: int = 0) -> np.ndarray:
    """Returns indices of the source's examples, drawn to the class shares predicted for the target.

    Args:
        outputs: What `pair_outputs` gave.
        seed: Seed of the choice.
    """
    rng = np.random.default_rng(seed)
    kinds = [outputs.logits[domain].argmax(axis=1) for domain in ("source", "target")]
    shares = np.bincount(kinds[1], minlength=outputs.logits["source"].shape[1])
    there = np.bincount(kinds[0], minlength=len(shares))
    # A class of a few would leave almost no examples of the others.
    shares[shares < shares.max() / 20] = 0
    # Without replacement, or an example could be in both halves of a probe.
    scale = min((there[k] / n for k, n in enumerate(shares) if n), default=0.0)
    drawn = [
        rng.permutation(np.flatnonzero(kinds[0] == k))[: int(scale * n)]
        for k, n in enumerate(shares)
    ]
    return np.concatenate(drawn)
