from typing import Any

import keras
import numpy as np

from dann.checks import check_number
from dann.selection.predictions import check_target, count_of, indexable, logits
from dann.selection.scores import SCORES


@SCORES.register(
    "mix_val",
    summary="Accuracy on mixtures of target examples, by the classes predicted for their parts.",
    reads="target",
    cost="one more pass over the target",
    paper="[Hu et al., 2023](https://openreview.net/forum?id=ackajXqei2)",
)
def mix_val(
    model: Any,
    *,
    target: Any,
    source: Any = None,
    batch_size: int = 256,
    share: float = 0.55,
    seed: int = 0,
) -> float:
    """Scores a checkpoint by MixVal: its accuracy on mixtures of target examples.

    Every target example `x_i`, of predicted class `y_i`, is mixed with another one `x_j`, drawn at
    random. The model is right if it still predicts the class of the greater part:

    - `right_i = [argmax logits(share * x_i + (1 - share) * x_j) = y_i]`
    - `(mean of right_i where y_i = y_j + mean of right_i where y_i != y_j) / 2`, in [0, 1]

    Mixtures within a cluster probe its density, those between clusters the boundary. If there is no
    mixture of a kind, its share is 0. So a model that gives everything to one class scores .5, not
    the best. The authors' code gives the two shares separately; their mean is one number that does
    not depend on the other checkpoints.

    Shared arguments and errors: see `dann.selection.compute_scores`.

    Args:
        target: Inputs of the target that can be mixed, such as pixels; at least 2.
        share: Share of `x_i` in a mixture, above .5 and below 1. Defaults to the paper's `0.55`.
        seed: Seed of the draw. Defaults to `0`; use one seed for all checkpoints.

    Reference:
        - [Hu et al., 2023](https://openreview.net/forum?id=ackajXqei2), section 3.
    """
    check_number("share", share, 0.5, 1, above=True, below=True)
    target = check_target(model, target, least=2)
    count = count_of(target)
    order = np.random.default_rng(seed).permutation(count)
    partners = np.empty(count, int)
    partners[order] = np.roll(order, 1)  # never itself
    classes = logits(model, target, batch_size).argmax(axis=1)
    mixtures = keras.tree.map_structure(lambda part: _Mixed(part, partners, share), target)
    mixed = logits(model, mixtures, batch_size)
    right = mixed.argmax(axis=1) == classes
    alike = classes == classes[partners]
    return float(sum(right[kind].mean() for kind in (alike, ~alike) if kind.any()) / 2)


class _Mixed:
    """An array-like of mixtures, computed when rows are read."""

    def __init__(self, inputs, partners, share):
        self.inputs = indexable(inputs)
        self.partners = partners
        self.share = share

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, chosen):
        first = np.asarray(self.inputs[chosen], "float32")
        second = np.asarray(self.inputs[self.partners[chosen]], "float32")
        return self.share * first + (1 - self.share) * second
