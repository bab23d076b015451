"""Scores of a classifier's predictions: right on the source, sure and spread on the target."""

import numpy as np
from scipy import special

from dann.checks import check_number
from dann.selection.outputs import Outputs, draw_partners
from dann.selection.scores import SCORES


@SCORES.register("source_accuracy", reads="labelled source")
def source_accuracy(outputs: Outputs) -> float:
    """Scores a checkpoint by its accuracy on held-out source examples.

    The baseline that every other score has to beat: it ignores the target.

    - `mean over the source of [argmax logits(x) = y]`, in [0, 1]
    """
    return float(np.mean(outputs.source_logits.argmax(axis=1) == outputs.source_labels))


@SCORES.register("mix_val", reads="target", needs_mixtures=True, min_target_examples=2)
def mix_val(outputs: Outputs, seed: int = 0) -> float:
    """Scores a checkpoint by MixVal: its accuracy on mixtures of target examples.

    Every target example `x_i`, of predicted class `y_i`, is mixed with another one `x_j`, drawn at
    random. The model is right if it still predicts the class of the greater part:

    - `right_i = [argmax logits(.55 x_i + .45 x_j) = y_i]`
    - `(mean of right_i where y_i = y_j + mean of right_i where y_i != y_j) / 2`, in [0, 1]

    Mixtures within a cluster probe its density, those between clusters the boundary. If there is no
    mixture of a kind, its share is 0. So a model that gives everything to one class scores .5, not
    the best. The authors' code gives the two shares separately; their mean is one number that does
    not depend on the other checkpoints.

    Args:
        outputs: Of at least 2 target examples whose inputs can be mixed, such as pixels;
            `mixed_logits` are those of `dann.selection.outputs.mixtures`.
        seed: Seed of the draw of these mixtures. Defaults to `0`.

    Reference:
        - [Hu et al., 2023](https://openreview.net/forum?id=ackajXqei2), section 3.
    """
    classes = outputs.target_logits.argmax(axis=1)
    if len(classes) < 2:
        raise ValueError("The target must hold at least 2 examples. Received: 1")
    right = outputs.mixed_logits.argmax(axis=1) == classes
    alike = classes == classes[draw_partners(len(classes), seed)]
    return float(sum(right[kind].mean() for kind in (alike, ~alike) if kind.any()) / 2)


@SCORES.register("entropy", reads="target")
def entropy(outputs: Outputs) -> float:
    """Scores a checkpoint by its certainty on the target: minus the mean entropy.

    With the softmax `p(x)`:

    - `-mean over the target of H(p(x))`, in [-log C, 0] nats, `H(p) = -sum p log p`

    A model that is certain of one class for everything has the best score.

    Reference:
        - [Morerio et al., 2018](https://arxiv.org/abs/1711.10288), section 4.
    """
    return -mean_entropy(special.softmax(outputs.target_logits, axis=1))


def mean_entropy(chances: np.ndarray) -> float:
    """Returns the mean entropy of distributions `(n, num_classes)`, in nats."""
    return float(special.entr(chances).sum(axis=1).mean())


@SCORES.register("info_max", reads="target")
def info_max(outputs: Outputs) -> float:
    """Scores a checkpoint by the mutual information of the target's inputs and its predictions.

    With the softmax `p(x)` and its mean `q` over the target:

    - `H(q) - mean over the target of H(p(x))`, in [0, log C] nats

    A model that is certain and predicts the classes in equal parts has the best score; one that
    gives everything to one class has 0.

    Reference:
        - [Shi and Sha, 2012](https://arxiv.org/abs/1206.6438), section 2.
        - [Musgrave et al., 2022](https://arxiv.org/abs/2208.07360), for its use as a score.
    """
    chances = special.softmax(outputs.target_logits, axis=1)
    return mean_entropy(chances.mean(axis=0, keepdims=True)) - mean_entropy(chances)


@SCORES.register("bnm", reads="target")
def bnm(outputs: Outputs) -> float:
    """Scores a checkpoint by the nuclear norm of its predictions on the target.

    With the softmax matrix `P` `(n, C)` and the sum of its singular values `|P|_*`:

    - `|P|_* / sqrt(n * min(n, C))`, in (0, 1]

    The divisor is the norm's maximum: predictions that are certain and give the classes in equal
    parts score 1. For `n >= C`, certain predictions of one class score `1 / sqrt(C)`, uniform ones
    `1 / C`.

    Reference:
        - [Cui et al., 2020](https://arxiv.org/abs/2003.12237), section 3.
    """
    chances = special.softmax(outputs.target_logits, axis=1)
    singular_values = np.linalg.svd(chances, compute_uv=False)
    return float(singular_values.sum() / np.sqrt(len(chances) * min(chances.shape)))


@SCORES.register("mcc", reads="target")
def mcc(outputs: Outputs, temperature: float = 2.5) -> float:
    """Scores a checkpoint by its confusion between classes on the target, negated.

    With the softmax `p_i` of the logits over the temperature, for the `n` examples of the target:

    - `w_i = n (1 + exp(-H(p_i))) / sum over k of (1 + exp(-H(p_k)))`
    - `M_ab = sum over i of w_i p_ia p_ib`, each row divided by its sum
    - `-(1 / C) sum of M_ab over a != b`, in [(1 - C) / C, 0]

    Args:
        temperature: Divisor of the logits, above 0. Defaults to the paper's `2.5`.

    Reference:
        - [Jin et al., 2020](https://arxiv.org/abs/1912.03699), equations 2 to 7.
    """
    check_number("temperature", temperature, 0, above=True)
    logs = special.log_softmax(outputs.target_logits / temperature, axis=1)
    chances = np.exp(logs)
    certainty = 1 + np.exp(-special.entr(chances).sum(axis=1))
    weighted = certainty[:, None] * chances / certainty.mean()
    # Dividing a row by its sum cancels any factor of the row, so each class is scaled to a maximum
    # of 1: a class that is never predicted then does not underflow to 0 / 0.
    confusion = np.exp(logs - logs.max(axis=0)).T @ weighted  # (classes, classes)
    confusion /= confusion.sum(axis=1, keepdims=True)
    return float(np.trace(confusion) / len(confusion) - 1)
