"""Scores of predicted classes: source accuracy, and confidence and diversity on the target."""

import numpy as np
from scipy import special

from dann.checks import check_number
from dann.selection.outputs import Outputs, draw_permutation_partners
from dann.selection.scores import SCORES


@SCORES.register("source_accuracy", reads="labeled source")
def source_accuracy(outputs: Outputs) -> float:
    """Scores a checkpoint by its accuracy on held-out source examples.

    This is the baseline for all other scores, because it ignores the target.

    - `mean over the source of [argmax logits(x) = y]`, in [0, 1]

    Args:
        outputs: Outputs with source logits and labels.
    """
    return float(np.mean(outputs.source_logits.argmax(axis=1) == outputs.source_labels))


@SCORES.register("mix_val", reads="target", needs_mixtures=True)
def mix_val(outputs: Outputs) -> float:
    """Scores a checkpoint by MixVal: its accuracy on mixtures of target examples.

    Every target example `x_i` with the predicted class `y_i` is mixed with another example `x_j`,
    drawn at random. The model is correct if it predicts the class of the larger part of the
    mixture:

    - `r_i = [argmax logits(0.55 x_i + 0.45 x_j) = y_i]`
    - `(mean of r_i where y_i = y_j + mean of r_i where y_i != y_j) / 2`, in [0, 1]

    Mixtures within a cluster measure its density, and mixtures between clusters measure the
    boundary. If there is no mixture of a kind, its fraction is 0. A model that predicts one class
    for all examples therefore scores 0.5, which is not the best score. The authors' code returns
    the two fractions separately; their mean does not depend on other checkpoints.

    Args:
        outputs: Outputs for at least 2 target examples whose inputs can be mixed, such as pixels,
            with the `mixed_logits` of `dann.selection.outputs.mix`.

    Reference:
        - [Hu et al., 2023](https://openreview.net/forum?id=ackajXqei2), section 3.
    """
    classes = outputs.target_logits.argmax(axis=1)
    is_correct = outputs.mixed_logits.argmax(axis=1) == classes
    same_class = classes == classes[draw_permutation_partners(len(classes))]
    kinds = [kind for kind in (same_class, ~same_class) if kind.any()]
    return float(sum(is_correct[kind].mean() for kind in kinds) / 2)


@SCORES.register("entropy", reads="target")
def entropy(outputs: Outputs) -> float:
    """Scores a checkpoint by its confidence on the target: minus the mean entropy.

    With the softmax `p(x)`:

    - `-mean over the target of H(p(x))`, in [-log C, 0] nats, `H(p) = -sum p log p`

    A model that predicts one class for all examples with full confidence has the best score.

    Args:
        outputs: Outputs with target logits.

    Reference:
        - [Morerio et al., 2018](https://arxiv.org/abs/1711.10288), section 4.
    """
    return -mean_entropy(special.softmax(outputs.target_logits, axis=1))


def mean_entropy(probabilities: np.ndarray) -> float:
    """Returns the mean entropy of distributions `(n, num_classes)`, in nats."""
    return float(special.entr(probabilities).sum(axis=1).mean())


@SCORES.register("info_max", reads="target")
def info_max(outputs: Outputs) -> float:
    """Scores a checkpoint by the mutual information of target inputs and predictions.

    With the softmax `p(x)` and its mean `q` over the target:

    - `H(q) - mean over the target of H(p(x))`, in [0, log C] nats

    A model that predicts the classes with full confidence and equally often has the best score. A
    model that predicts one class for all examples scores 0.

    Args:
        outputs: Outputs with target logits.

    Reference:
        - [Shi and Sha, 2012](https://arxiv.org/abs/1206.6438), section 2.
        - [Musgrave et al., 2022](https://arxiv.org/abs/2208.07360), for its use as a score.
    """
    probabilities = special.softmax(outputs.target_logits, axis=1)
    marginal = probabilities.mean(axis=0, keepdims=True)  # (1, num_classes)
    return mean_entropy(marginal) - mean_entropy(probabilities)


@SCORES.register("bnm", reads="target")
def bnm(outputs: Outputs) -> float:
    """Scores a checkpoint by the nuclear norm of its predictions on the target.

    With the softmax matrix `P` `(n, C)` and the sum of its singular values `|P|_*`:

    - `|P|_* / sqrt(n * min(n, C))`, in (0, 1]

    The divisor is the maximum of the norm: confident predictions in which all classes occur equally
    often score 1. For `n >= C`, confident predictions of one class score `1 / sqrt(C)`, and uniform
    predictions score `1 / C`.

    Args:
        outputs: Outputs with target logits.

    Reference:
        - [Cui et al., 2020](https://arxiv.org/abs/2003.12237), section 3.
    """
    probabilities = special.softmax(outputs.target_logits, axis=1)
    nuclear_norm = np.linalg.svd(probabilities, compute_uv=False).sum()
    return float(nuclear_norm / np.sqrt(len(probabilities) * min(probabilities.shape)))


@SCORES.register("mcc", reads="target")
def mcc(outputs: Outputs, temperature: float = 2.5) -> float:
    """Scores a checkpoint by the negative confusion between classes on the target.

    With the softmax `p_i` of the logits divided by the temperature, for `n` target examples:

    - `w_i = n (1 + exp(-H(p_i))) / sum over k of (1 + exp(-H(p_k)))`
    - `M_ab = sum over i of w_i p_ia p_ib`, each row divided by its sum
    - `-(1 / C) sum of M_ab over a != b`, in [(1 - C) / C, 0]

    Args:
        outputs: Outputs with target logits.
        temperature: Divisor of the logits, above 0. Defaults to `2.5`, as in the paper.

    Reference:
        - [Jin et al., 2020](https://arxiv.org/abs/1912.03699), equations 2 to 7.
    """
    check_number("temperature", temperature, 0, exclude_low=True)
    log_probabilities = special.log_softmax(outputs.target_logits / temperature, axis=1)
    probabilities = np.exp(log_probabilities)  # (n, classes)
    # Examples with a low entropy count up to twice as much.
    certainty = 1 + np.exp(-special.entr(probabilities).sum(axis=1))
    weighted = certainty[:, None] * probabilities / certainty.mean()
    # Dividing a row by its sum cancels any factor of the row, so each class is scaled to a maximum
    # of 1: a class that is never predicted then does not underflow to 0 / 0.
    scaled = np.exp(log_probabilities - log_probabilities.max(axis=0))
    confusion = scaled.T @ weighted  # (classes, classes)
    confusion /= confusion.sum(axis=1, keepdims=True)
    return float(np.trace(confusion) / len(confusion) - 1)
