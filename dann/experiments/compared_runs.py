"""The runs of a comparison: trained networks, and baselines without training."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from dann.adaptation import TargetOnly
from dann.adaptation.prediction import predict
from dann.data import DomainPair, Standardizer
from dann.selection import Outputs, adapt_shares, compute_outputs, estimate_shares
from dann.selection.outputs import check_finite_outputs
from dann.training import Trainer, compile_model, start


class ComparedRun(NamedTuple):
    """A run of a comparison.

    Attributes:
        outputs: The outputs that scores read, on the source's test set and the target's training
            inputs.
        test_logits: Logits on the target's test set, `(n, num_classes)`.
        classifier: Network from inputs of the target to logits, or `None`.
        is_oracle: Whether it learned from target labels.
    """

    outputs: Outputs
    test_logits: np.ndarray
    classifier: Any = None
    is_oracle: bool = False


def train(
    method: Callable[[Any, int], Any],
    backbone: Any,
    domains: DomainPair,
    optimizer: Callable[[], Any],
    *,
    steps: int,
    batch_size: int | None,
    seed: int,
    features: bool = False,
) -> ComparedRun:
    """Trains one run, as `dann.compare` describes.

    Raises:
        NotFiniteError: If an output is not finite. It is a `ValueError`.
    """
    start(seed, keras.config.dtype_policy().name)
    model: Any = method(backbone(), domains.num_classes)
    compile_model(model, optimizer(), Trainer(steps, steps_per_epoch=steps))
    is_oracle = isinstance(model, TargetOnly)
    batches = (domains.oracle() if is_oracle else domains).batches(batch_size, seed)
    model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0)
    source, target = domains.source_test, domains.target_train
    outputs = compute_outputs(model, source=source, target=target, features=features, mixed=False)
    logits = check_finite_outputs("logits", predict(model.classifier, domains.target_test[0]))
    return ComparedRun(outputs, logits, model.classifier, is_oracle)


def standardize_each(domains: DomainPair) -> DomainPair:
    """Returns the domains with the same mean and variance, each by its own statistics.

    Images of the target get the mean and variance of the source, because networks rescale pixels.
    """
    standardizer = Standardizer("each").fit(domains.source_train[0], domains.target_train)
    if len(domains.input_shape) == 3:
        (source_mean, source_std), (mean, std) = standardizer.statistics.values()
        # (x - mean) / std * source_std + source_mean keeps the range of the source's pixels.
        scale = std / source_std
        target = np.stack([mean - source_mean * scale, scale])
        source = np.stack([np.zeros_like(mean), np.ones_like(std)])
        standardizer.statistics = {"source": source, "target": target}
    return domains.standardize(standardizer)


def correct_shares(baseline: ComparedRun) -> tuple[ComparedRun | None, str]:
    """Returns a run that is corrected for the class shares of the target, and a line about them.

    There is no run if there is an objection to the estimated shares.
    """
    shares = estimate_shares(baseline.outputs)
    if shares.objection:
        return None, str(shares)
    target, test = (
        logits / shares.temperature + shares.offsets
        for logits in (baseline.outputs.target_logits, baseline.test_logits)
    )
    outputs = baseline.outputs._replace(target_logits=target)
    classifier = adapt_shares(baseline.classifier, shares)
    return ComparedRun(outputs, test, classifier), str(shares)


def boost(domains: DomainPair, seed: int) -> ComparedRun:
    """Returns the run of gradient boosting on the source, which is not a network."""
    inputs, labels = domains.source_train
    with threadpool_limits(1):  # on shared cores, threads would wait in a busy loop
        trees = HistGradientBoostingClassifier(random_state=seed).fit(np.asarray(inputs), labels)

    def compute_logits(examples):
        logits = np.full((len(examples), domains.num_classes), np.log(1e-12))
        logits[:, trees.classes_] = np.log(trees.predict_proba(np.asarray(examples)) + 1e-12)
        return logits

    source, source_labels = domains.source_test
    outputs = Outputs(
        target_logits=compute_logits(domains.target_train),
        source_logits=compute_logits(source),
        source_labels=source_labels,
    )
    return ComparedRun(outputs, compute_logits(domains.target_test[0]))
