from typing import Any

import numpy as np
from scipy import special

from dann.selection.logistic import fit_logistic
from dann.selection.outputs import check_labels_fit, check_source, check_target, features, logits


def dev(model: Any, *, source: Any, target: Any, batch_size: int = 256, seed: int = 0) -> float:
    """Scores a checkpoint by deep embedded validation: minus its weighted risk on the source.

    One half of the source, of `n` examples, and the `m` of the target teach a fresh classifier of
    domains, a logistic regression on the features; `D(x)` is the probability that it gives to the
    target. The other half is weighed by it to look like the target. There, with the cross-entropy
    `l` of the labels:

    - `w = n / m * D(x) / (1 - D(x))`, `W` its values and `L` those of `w l`
    - `c = -cov(L, W) / var(W)`, the control variate's factor; 0 where `W` is constant
    - `-(mean(L) + c mean(W) - c)`, not above 0 but for the noise of the estimate

    The control variate uses that weights have a mean of 1, and lowers the variance.

    Args:
        model: `dann.adaptation.AdversarialModel`, for its features.
        source: Inputs and labels of source examples that the training does not see, at least 4.
        target: Inputs of the target.
        batch_size: Inputs at a time. Defaults to `256`.
        seed: Seed of the halves. Defaults to `0`; use one seed for all checkpoints.

    Returns:
        The score in nats; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs, `source` no pair of arrays, or the model
            no `AdversarialModel`.
        ValueError: If there are too few examples, a label is not among the model's classes, or an
            output is not finite.

    Reference:
        - [You et al., 2019](https://proceedings.mlr.press/v97/you19a.html), section 4.
    """
    inputs, labels = check_source(source, least=4)
    check_target(target)
    values = logits(model, inputs, batch_size)
    check_labels_fit(labels, values.shape[1])
    of_source = features(model, inputs, batch_size)
    of_target = features(model, target, batch_size)
    order = np.random.default_rng(seed).permutation(len(labels))
    train, held_out = np.split(order, [len(order) // 2])

    domain = np.repeat([0, 1], [len(train), len(of_target)])
    tell = fit_logistic(np.concatenate([of_source[train], of_target]), domain, num_classes=2)
    chances = tell(of_source[held_out])
    # A source example that surely looks like the target would weigh infinitely much.
    least = np.finfo("float64").eps
    weights = len(train) / len(of_target) * chances[:, 1] / np.maximum(chances[:, 0], least)

    losses = -special.log_softmax(values[held_out], axis=1)
    weighted = weights * losses[np.arange(len(held_out)), labels[held_out]]
    covariance = np.cov(weighted, weights)  # both moments with the same divisor
    spread = covariance[1, 1]
    factor = -covariance[0, 1] / spread if spread > least * weights.mean() ** 2 else 0.0
    return -float(weighted.mean() + factor * weights.mean() - factor)
