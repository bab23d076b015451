import numpy as np
from scipy import special

from dann.selection.logistic import fit_logistic
from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES


@SCORES.register("dev", reads="labelled source, target", of_features=True)
def dev(outputs: Outputs, seed: int = 0) -> float:
    """Scores a checkpoint by deep embedded validation: minus its weighted risk on the source.

    A fresh domain classifier, a logistic regression on the features, is trained on one half of the
    source (`n` examples) and on the target (`m` examples); `D(x)` is its probability of the target.
    It weights the other half of the source to look like the target. On that half, with the
    cross-entropy `l` of the labels:

    - `w = n / m * D(x) / (1 - D(x))`, `W` its values and `L` those of `w l`
    - `c = -cov(L, W) / var(W)`, the control variate's factor; 0 where `W` is constant
    - `-(mean(L) + c mean(W) - c)`, at most 0 except for the noise of the estimate, in nats

    The control variate lowers the variance; it uses that the weights have a mean of 1.

    Args:
        outputs: With at least 4 source examples.
        seed: Seed of the halves. Defaults to `0`; use one seed for all checkpoints.

    Reference:
        - [You et al., 2019](https://proceedings.mlr.press/v97/you19a.html), section 4.
    """
    of_source, of_target = outputs.source_features, outputs.target_features
    labels, values = outputs.source_labels, outputs.source_logits
    if len(labels) < 4:
        raise ValueError(f"The source must hold at least 4 examples. Received: {len(labels)}")
    order = np.random.default_rng(seed).permutation(len(labels))
    train, held_out = np.split(order, [len(order) // 2])

    domain = np.repeat([0, 1], [len(train), len(of_target)])
    classify = fit_logistic(np.concatenate([of_source[train], of_target]), domain, num_classes=2)
    chances = classify(of_source[held_out])
    # A source example that surely looks like the target would get an infinite weight.
    least = np.finfo("float64").eps
    weights = len(train) / len(of_target) * chances[:, 1] / np.maximum(chances[:, 0], least)

    losses = -special.log_softmax(values[held_out], axis=1)
    weighted = weights * losses[np.arange(len(held_out)), labels[held_out]]
    covariance = np.cov(weighted, weights)  # both moments with the same divisor
    spread = covariance[1, 1]
    factor = -covariance[0, 1] / spread if spread > least * weights.mean() ** 2 else 0.0
    return -float(weighted.mean() + factor * weights.mean() - factor)
