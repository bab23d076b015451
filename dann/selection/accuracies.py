"""Scores that are accuracies, on the source or on mixtures of the target."""

import numpy as np

from dann.selection.outputs import Outputs, partners
from dann.selection.scores import SCORES


@SCORES.register("source_accuracy", reads="labelled source")
def source_accuracy(outputs: Outputs) -> float:
    """Scores a checkpoint by its accuracy on held-out source examples.

    The baseline that every other score has to beat: it ignores the target.

    - `mean over the source of [argmax logits(x) = y]`, in [0, 1]

    """
    return float(np.mean(outputs.source_logits.argmax(axis=1) == outputs.source_labels))


@SCORES.register("mix_val", reads="target", mixed=True, least_target=2)
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
    alike = classes == classes[partners(len(classes), seed)]
    return float(sum(right[kind].mean() for kind in (alike, ~alike) if kind.any()) / 2)
