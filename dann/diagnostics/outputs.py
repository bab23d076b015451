"""The outputs of an adversarial model for a pair of domains, as arrays."""

from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation.prediction import predict
from dann.adaptation.preserve_state import preserve_state
from dann.data.conversion import as_array
from dann.data.examples import check_frame_columns
from dann.data.pairs import Pairs
from dann.diagnostics.passes import DOMAINS, as_tensors, check_method, to_float64


class PairOutputs(NamedTuple):
    """Arrays by domain, `"source"` and `"target"`.

    Attributes:
        features: Features `(n, num_features)`.
        logits: Logits of the classes `(n, num_classes)`.
        domain: Logits of the discriminator `(n, k)`, above 0 for the target; `None` if the method
            has no discriminator of the domains.
    """

    features: dict[str, np.ndarray]
    logits: dict[str, np.ndarray]
    domain: dict[str, np.ndarray] | None = None


def pair_outputs(model: Any, data: tuple) -> PairOutputs:
    """Runs the model on a pair in inference; the model does not change."""
    check_method(model, compiled=False, flat=True)
    model.check_columns(data)
    x = data[0]
    with preserve_state(model):  # methods may draw noise
        features = {name: compute_features(model.backbone, x[name]) for name in DOMAINS}
        tensors = as_tensors({name: array.astype("float32") for name, array in features.items()})
        logits = {name: to_float64(model.label_head(tensor)) for name, tensor in tensors.items()}
        batch = model.make_batch(x, tensors, training=False)
        scores = model.domain_scores(batch, model.reversal, training=False)
    if scores is None:
        return PairOutputs(features, logits)
    domain_logits = map(to_float64, batch.split_domains(scores))
    return PairOutputs(features, logits, dict(zip(DOMAINS, domain_logits, strict=True)))


def get_features(model: Any, inputs: Any) -> np.ndarray:
    """Returns the features of a model, or `model` itself if it is features, `(n, num_features)`."""
    features = model
    if isinstance(model, keras.Layer) and not isinstance(inputs, tuple | Pairs | None):
        check_frame_columns(inputs, getattr(model, "frame_columns", ()))
        features = compute_features(getattr(model, "backbone", model), inputs)
    if isinstance(features, keras.Layer | str):
        received = ", ".join(type(value).__name__ for value in (model, inputs))
        raise TypeError(
            "Expected a Keras model and its inputs, without labels, or features. Received: types "
            f"{received}"
        )
    features = as_array(features, "features")
    if features.dtype.kind not in "biuf":
        raise ValueError(f"Expected features to be numbers. Received: {features.dtype}")
    return features.astype("float64").reshape(len(features), -1)


def compute_features(network: Any, inputs: Any) -> np.ndarray:
    """Returns the outputs of a network in inference, in double precision."""
    return predict(network, keras.tree.map_structure(np.asarray, inputs)).astype("float64")


def select_matched_source_rows(outputs: PairOutputs, seed: int = 0) -> np.ndarray:
    """Returns indices of source examples with the class proportions predicted for the target."""
    rng = np.random.default_rng(seed)
    source, target = (outputs.logits[domain].argmax(axis=1) for domain in DOMAINS)
    targets = np.bincount(target, minlength=outputs.logits["source"].shape[1])
    sources = np.bincount(source, minlength=len(targets))
    # A rare class would leave almost no examples of the other classes.
    targets[targets < targets.max() / 20] = 0
    # Without replacement, because no example may be in both the training and the test split of
    # a probe.
    scale = min((sources[k] / n for k, n in enumerate(targets) if n), default=0.0)
    indices = [
        rng.permutation(np.flatnonzero(source == k))[: int(scale * n)]
        for k, n in enumerate(targets)
    ]
    return np.concatenate(indices)
