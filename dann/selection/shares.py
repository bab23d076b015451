"""Class proportions of the target, and a classifier that is corrected for them."""

from typing import Any, NamedTuple

import keras
import numpy as np
from scipy import optimize, special

from dann.adaptation.prediction import check_finite_outputs
from dann.checks import check_classifier
from dann.data.probes import FOLDS, Separation, probe_domains
from dann.selection.outputs import Outputs, convert_source_labels

_MAX_STEPS, _TOLERANCE = 1000, 1e-6  # of the EM algorithm
_REPETITIONS = 20  # of the bootstrap
_MAX_ERROR = 0.05  # largest accepted standard error of a proportion
_MIN_SINGULAR_VALUE = 1e-3  # of the probabilities of the classes, each as a vector of length 1


class ShareEstimate(NamedTuple):
    """Class proportions of source and target, as `estimate_shares` returns them.

    Attributes:
        source: Proportions of the classes in the held-out source, `(num_classes,)`.
        target: Estimated proportions in the target by maximum likelihood, `(num_classes,)`.
        bbse: Estimated proportions in the target from the confusion matrix, `(num_classes,)`.
        errors: Standard errors of `target`, by 20 bootstrap samples, `(num_classes,)`; infinite if
            the calibrated probabilities of the classes are linearly dependent.
        temperature: Divisor of the logits that calibrates the classifier on the source.
        biases: Addends of the divided logits that calibrate it, `(num_classes,)`.
        probe: Accuracy of a probe, a new classifier of the domains, on the target and on source
            examples that have the class proportions of the target.
    """

    source: np.ndarray
    target: np.ndarray
    bbse: np.ndarray
    errors: np.ndarray
    temperature: float
    biases: np.ndarray
    probe: Separation

    @property
    def offsets(self) -> np.ndarray:
        """Addends of the divided logits for the target: `biases + log(target / source)`."""
        # A proportion of 0 would become -inf, which the format of models cannot store.
        return self.biases + np.log(np.maximum(self.target, 1e-6) / np.maximum(self.source, 1e-6))

    @property
    def rejection_reason(self) -> str | None:
        """Why the estimate is rejected, or `None`."""
        if np.isnan(self.probe.accuracy):
            return (
                f"too few examples: the test of the assumption requires {FOLDS} of each domain, "
                "and in the source as many with the estimated class proportions"
            )
        if self.errors.max() > _MAX_ERROR:
            return (
                "the classifier separates the classes too poorly: a proportion has a standard "
                f"error of {self.errors.max():.2f}"
            )
        if self.probe.low > 0.5:
            return (
                "the inputs moved too: with equal class proportions, a new probe still separates "
                f"the domains with an accuracy of {self.probe.accuracy:.1%} (chance 50%)"
            )
        return None

    def __str__(self):
        if self.rejection_reason:
            return f"estimated class proportions on the target: unknown ({self.rejection_reason})"
        columns = range(len(self.target)), self.target, self.errors, self.source
        words = [
            f"class {k} {share:.0%} ± {error:.0%} (source {old:.0%})"
            for k, share, error, old in zip(*columns, strict=True)
        ]
        return f"estimated class proportions on the target: {', '.join(words)}"


def estimate_shares(outputs: Outputs) -> ShareEstimate:
    """Estimates the class proportions of the target, if only these differ from the source.

    The assumption is label shift: the inputs of a class are distributed alike in both domains,
    `p_s(x | y) = p_t(x | y)`. On the held-out source, a temperature and one bias per class are
    fitted by maximum likelihood, so that the softmax `p(y | x)` is calibrated. Then

    - maximum likelihood, by the EM algorithm from the source proportions `p(y)`:
      `q(y) <- mean over the target of  q(y) / p(y) p(y | x) / sum_k q(k) / p(k) p(k | x)`
    - BBSE: `C w = m` with `w >= 0`, where `C_ij` is the fraction of all held-out source examples
      that are of class `j` and predicted as `i`, `m_i` the fraction of target examples that are
      predicted as `i`, and `w(y) = q(y) / p(y)`

    The assumption is tested. The first source examples of each class are taken, as many as possible
    with the estimated proportions, so the result depends on the order of the examples, and a class
    with an expected count below 1 is left out. A new probe must not separate these examples from
    the target. It reads features if there are any, otherwise the logits. If the probe separates
    them, or a standard error is above 0.05, the estimate is rejected: `rejection_reason` of the
    result contains the reason.

    Args:
        outputs: Result of `dann.selection.compute_outputs` with `source` and `target`, for a
            classifier that did not train on these source examples.

    Raises:
        NotFiniteError: If a logit is not finite. It is a `ValueError`.
        TypeError: If outputs of a domain are missing.
        ValueError: If there are fewer than 2 classes, the domains differ in the number of classes,
            or a source example has no class number.

    Example:

    >>> import dann, keras, numpy as np
    >>> inputs = keras.Input((1,))
    >>> classifier = keras.Model(inputs, keras.ops.hstack([0 * inputs, 3 * inputs - 4.5]))
    >>> rng = np.random.default_rng(0)
    >>> y, y_target = np.arange(600) % 2, np.arange(600) % 10 // 8  # one half, one fifth
    >>> x, x_target = (rng.normal(3 * labels)[:, None] for labels in (y, y_target))
    >>> domains = {"source": (x, y), "target": x_target}
    >>> outputs = dann.selection.compute_outputs(classifier, features=False, **domains)
    >>> shares = dann.selection.estimate_shares(outputs)
    >>> shares.target.round(1).tolist(), shares.rejection_reason
    ([0.8, 0.2], None)

    Reference:
        - [Saerens et al., 2002](https://doi.org/10.1162/089976602753284446), equation 2.9.
        - [Lipton et al., 2018](https://arxiv.org/abs/1802.03916), section 4.
        - [Alexandari et al., 2020](https://arxiv.org/abs/1901.06852), for the calibration.
    """
    source, labels, target = read_outputs(outputs)
    temperature, biases = calibrate(source, labels)
    source_shares, shares, bbse = _estimate(source, labels, target, temperature, biases)
    rng, bootstrap_shares = np.random.default_rng(0), []
    for _ in range(_REPETITIONS):
        rows, target_rows = (rng.integers(len(part), size=len(part)) for part in (source, target))
        calibration = calibrate(source[rows], labels[rows])
        estimate = _estimate(source[rows], labels[rows], target[target_rows], *calibration)
        bootstrap_shares.append(estimate[1])
    errors = np.std(bootstrap_shares, axis=0, ddof=1)
    probabilities = special.softmax(source / temperature + biases, axis=1)  # (m, classes)
    norms = np.maximum(np.linalg.norm(probabilities, axis=0), np.finfo("float64").tiny)
    rank = np.linalg.matrix_rank(probabilities / norms, tol=_MIN_SINGULAR_VALUE)
    if rank < source.shape[1]:  # other proportions have the same likelihood
        errors = np.full_like(errors, np.inf)
    if outputs.source_features is not None and outputs.source_features.ndim == 2:
        source, target = outputs.source_features, outputs.target_features
    rows, probe = _select_rows(labels, shares), Separation(*[np.nan] * 4)
    if min(len(rows), len(target)) >= FOLDS:
        probe = probe_domains(source[rows], target)
    return ShareEstimate(source_shares, shares, bbse, errors, temperature, biases, probe)


def adapt_shares(classifier: keras.Model, shares: ShareEstimate) -> keras.Model:
    """Adapts a classifier to the estimated class proportions of the target.

    With the logits `z`, the temperature `T`, the biases `b`, and the class proportions `p` of the
    source and `q` of the target, the new logits follow from Bayes' rule:

    - `z / T + b + log(q / p)`

    Args:
        classifier: Functional model from inputs to logits, for which `shares` was estimated, such
            as `model.classifier`. The new model shares its weights.
        shares: Result of `estimate_shares`.

    Returns:
        A Keras model with one more layer. `save` stores it, and `dann.deployment` exports it.

    Raises:
        TypeError: If the classifier is not functional.
        ValueError: If the estimate is rejected, or has another number of classes.

    Example:

    >>> import dann, keras, numpy as np
    >>> inputs = keras.Input((1,))
    >>> classifier = keras.Model(inputs, keras.ops.concatenate([-inputs, inputs], axis=1))
    >>> y = np.arange(600) % 2
    >>> x = np.random.default_rng(0).normal(2 * y - 1)[:, None].astype("float32")
    >>> domains = {"source": (x, y), "target": x}
    >>> outputs = dann.selection.compute_outputs(classifier, features=False, **domains)
    >>> shares = dann.selection.estimate_shares(outputs)
    >>> dann.adapt_shares(classifier, shares).output_shape
    (None, 2)

    Reference:
        - [Saerens et al., 2002](https://doi.org/10.1162/089976602753284446), equation 2.4.
    """
    if not isinstance(shares, ShareEstimate):
        raise TypeError(
            "Expected the result of `dann.selection.estimate_shares`. Received: "
            f"{type(shares).__name__}"
        )
    if shares.rejection_reason:
        raise ValueError(
            "Expected an estimate that is not rejected. Received: an estimate with the "
            f"`rejection_reason` {shares.rejection_reason!r}"
        )
    check_classifier(classifier, len(shares.target))
    count = sum(layer.name.startswith("shares") for layer in classifier.layers)
    name = f"shares_{count}" if count else "shares"  # of an adapted classifier, or of another
    adapt = keras.layers.Rescaling(1 / shares.temperature, shares.offsets.tolist(), name=name)
    return keras.Model(classifier.input, adapt(classifier.output), name=classifier.name)


def read_outputs(outputs: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns source logits, source labels and target logits, checked for `estimate_shares`."""
    names = "source_logits", "source_labels", "target_logits"
    missing = [name for name in names if getattr(outputs, name, None) is None]
    if missing:
        raise TypeError(
            "Expected outputs for `source=(inputs, labels)` and `target=inputs`, as "
            "`dann.selection.compute_outputs` returns them. Received: "
            f"{type(outputs).__name__} without {', '.join(missing)}"
        )
    source = check_finite_outputs("source logits", np.asarray(outputs.source_logits))
    target = check_finite_outputs("target logits", np.asarray(outputs.target_logits))
    shapes = source.shape, target.shape
    if source.ndim != 2 or source.shape[1:] != target.shape[1:] or source.shape[1] < 2:
        raise ValueError(
            "Expected logits `(n, num_classes)` of the same 2 or more classes in both domains. "
            f"Received: shapes {shapes[0]} and {shapes[1]}. For two classes write `num_classes=2`"
        )
    return source, convert_source_labels(outputs.source_labels, source), target


def calibrate(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Returns the temperature and the biases `(num_classes,)` that minimize the cross-entropy.

    Args:
        logits: Logits of held-out examples `(n, num_classes)`.
        labels: Their classes, integers `(n,)`.
    """
    one_hot = np.eye(logits.shape[1])[labels]  # (n, classes)

    def loss(parameters):
        scaled = logits / np.exp(parameters[0])
        log_probabilities = special.log_softmax(scaled + parameters[1:], axis=1)
        # Derivatives by the logarithm of the temperature, then by each bias.
        residuals = np.exp(log_probabilities) - one_hot
        gradient = [-(residuals * scaled).sum(axis=1).mean(), *residuals.mean(axis=0)]
        return -(one_hot * log_probabilities).sum(axis=1).mean(), np.array(gradient)

    # Without bounds, the minimum is at infinity if the logits separate the classes, or if a class
    # has no examples.
    bounds = [(-5, 5), *[(-10, 10)] * logits.shape[1]]
    start = np.zeros(len(bounds))
    parameters = optimize.minimize(loss, start, jac=True, bounds=bounds, tol=1e-9).x
    return float(np.exp(parameters[0])), parameters[1:]


def _estimate(source, labels, target, temperature, biases):
    """Returns the proportions of the source, and of the target by both estimators."""
    source = special.softmax(source / temperature + biases, axis=1)  # (m, classes)
    target = special.softmax(target / temperature + biases, axis=1)  # (n, classes)
    # Calibration with biases makes the mean probabilities equal to the proportions of the labels.
    shares = source_shares = np.maximum(source.mean(axis=0), np.finfo("float64").tiny)
    for _ in range(_MAX_STEPS):
        # Saerens et al., equation 2.9: posteriors with the current proportions, and their mean.
        weighted = target * (shares / source_shares)
        new_shares = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        change, shares = np.abs(new_shares - shares).max(), new_shares
        if change < _TOLERANCE:
            break
    # BBSE: C w = m, with the rows of C for predictions and its columns for labels.
    num_classes = source.shape[1]
    confusion = np.zeros((num_classes, num_classes))
    np.add.at(confusion, (source.argmax(axis=1), labels), 1 / len(labels))
    predicted = np.bincount(target.argmax(axis=1), minlength=num_classes) / len(target)
    ratios, _ = optimize.nnls(confusion, predicted)
    bbse = ratios * confusion.sum(axis=0)
    return source_shares, shares, bbse / max(bbse.sum(), np.finfo("float64").tiny)


def _select_rows(labels, shares):
    """Returns as many rows as possible, in order, whose labels have the given proportions.

    Classes with an expected count below 1 do not limit the number of rows.
    """
    rows = {y: np.flatnonzero(labels == y) for y in np.unique(labels)}
    used = [y for y in rows if shares[y] * len(labels) >= 1]
    total = min((len(rows[y]) / shares[y] for y in used), default=0)
    return np.concatenate([rows[y][: round(total * shares[y])] for y in rows])
