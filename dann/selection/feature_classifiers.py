"""Scores that train a logistic regression on the features."""

from collections.abc import Callable

import numpy as np
from scipy import special
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES


@SCORES.register(
    "dev",
    reads="labeled source, target",
    needs_features=True,
    supports_regression=True,
    min_source_examples=4,
)
def dev(outputs: Outputs, seed: int = 0) -> float:
    """Scores a checkpoint by deep embedded validation: minus its weighted risk on the source.

    A fresh domain classifier, a logistic regression on the features, is trained on one half of the
    source (`n` examples) and on the target (`m` examples). `D(x)` is its probability of the target.
    It weights the other half of the source to resemble the target. On that half, with the
    cross-entropy `l` of the labels, or the squared error in regression:

    - `W = n / m * D(x) / (1 - D(x))`, the weights, and `L = W l`, the weighted losses
    - `c = -cov(L, W) / var(W)`, the factor of the control variate; 0 if `W` is constant
    - `-(mean(L) + c mean(W) - c)`, at most 0 except for the noise of the estimate, in nats or in
      squared units of the labels

    The control variate reduces the variance of the estimate, because the expected weight is 1.

    Args:
        outputs: Outputs with at least 4 source examples, labels and features.
        seed: Seed of the halves. Defaults to `0`. Use one seed for all checkpoints.

    Reference:
        - [You et al., 2019](https://proceedings.mlr.press/v97/you19a.html), section 4.
    """
    source, target = outputs.source_features, outputs.target_features
    labels, logits = outputs.source_labels, outputs.source_logits
    if len(labels) < 4:
        raise ValueError(f"Expected at least 4 source examples. Received: {len(labels)}")
    order = np.random.default_rng(seed).permutation(len(labels))
    train, held_out = np.split(order, [len(order) // 2])

    domain = np.repeat([0, 1], [len(train), len(target)])
    classify = fit_logistic(np.concatenate([source[train], target]), domain, num_classes=2)
    probabilities = classify(source[held_out])  # (held out, 2)
    # A source example that is certainly like the target would get an infinite weight.
    epsilon = np.finfo("float64").eps
    source_probability = np.maximum(probabilities[:, 0], epsilon)
    weights = len(train) / len(target) * probabilities[:, 1] / source_probability

    weighted = weights * _losses(logits[held_out], labels[held_out])
    covariance = np.cov(weighted, weights)  # both moments with the same divisor
    variance = covariance[1, 1]
    # Below the rounding error, the weights are constant.
    factor = -covariance[0, 1] / variance if variance > epsilon * weights.mean() ** 2 else 0.0
    return -float(weighted.mean() + factor * weights.mean() - factor)


def _losses(logits, labels):
    if logits.shape[1] == 1:  # regression
        return (logits[:, 0] - labels) ** 2
    return -special.log_softmax(logits, axis=1)[np.arange(len(labels)), labels]


@SCORES.register("reverse_validation", reads="labeled source, target", needs_features=True)
def reverse_validation(outputs: Outputs) -> float:
    """Scores a checkpoint by a classifier trained on its predictions, tested on the source.

    A reverse classifier `r`, a logistic regression on the features of the model, is trained on the
    target with the classes that the model predicts, and tested on held-out source examples:

    - `mean over the source of [r(x) = y]`, in [0, 1]

    The paper trains `r` with the method itself and exchanged domains, which takes a second
    training.

    Args:
        outputs: Outputs with features of both domains, target logits and source labels.

    Reference:
        - [Zhong et al., 2010](https://doi.org/10.1007/978-3-642-15939-8_35), section 3.
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), section 5.1.2.
    """
    pseudo_labels = outputs.target_logits.argmax(axis=1)
    num_classes = outputs.target_logits.shape[1]
    predict = fit_logistic(outputs.target_features, pseudo_labels, num_classes)
    predicted = predict(outputs.source_features).argmax(axis=1)
    return float(np.mean(predicted == outputs.source_labels))


def fit_logistic(
    inputs: np.ndarray, labels: np.ndarray, num_classes: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Fits a logistic regression on standardized inputs `(n, d)` and integer labels `(n,)`.

    If all labels are equal, the function predicts this class with certainty.

    Args:
        inputs: Features.
        labels: Class numbers below `num_classes`. A class may be missing.
        num_classes: Number of classes.

    Returns:
        A function from inputs `(m, d)` to the probabilities of the classes `(m, num_classes)`.
    """
    present = np.unique(labels)
    if len(present) == 1:
        return lambda inputs: np.tile(np.eye(num_classes)[present[0]], (len(inputs), 1))
    regression = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-6, max_iter=10_000))
    # On shared cores, threads would wait for each other in a busy loop.
    with threadpool_limits(1):
        regression.fit(inputs, labels)

    def predict(inputs):
        probabilities = np.zeros((len(inputs), num_classes))
        probabilities[:, present] = regression.predict_proba(inputs)
        return probabilities

    return predict
