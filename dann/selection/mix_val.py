from typing import Any

import numpy as np

from dann.selection.outputs import check_target, indexable, logits


def mix_val(
    model: Any,
    *,
    target: Any,
    source: Any = None,
    batch_size: int = 256,
    share: float = 0.55,
    seed: int = 0,
) -> float:
    """Scores a checkpoint by MixVal: whether it is right on mixtures of target examples.

    Every target example `x_i`, of predicted class `y_i`, is mixed with another one `x_j`, drawn at
    random, and the model is asked whether it still sees the class of the greater part:

    - `right_i = [argmax logits(share * x_i + (1 - share) * x_j) = y_i]`
    - `(mean of right_i where y_i = y_j + mean of right_i where y_i != y_j) / 2`, in [0, 1]

    Mixtures within a cluster probe its density, those between clusters the boundary. Where there is
    no mixture of one kind, that kind counts 0, so that a model that gives everything to one class
    has .5 and not the best score. The authors' code gives the two shares apart; their mean is one
    number that does not depend on the other checkpoints.

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits.
        target: Inputs of the target that can be mixed, such as pixels; at least 2.
        source: Not used.
        batch_size: Inputs at a time. Defaults to `256`.
        share: Share of `x_i` in a mixture, above .5 and below 1. Defaults to the paper's `0.55`.
        seed: Seed of the draw. Defaults to `0`; use one seed for all checkpoints.

    Returns:
        The score; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs.
        ValueError: If it has fewer than 2 examples, a logit is not finite, or `share` is out of
            range.

    Reference:
        - [Hu et al., 2023](https://openreview.net/forum?id=ackajXqei2), section 3.
    """
    if not 0.5 < share < 1:
        raise ValueError(f"Argument `share` must be above .5 and below 1. Received: {share}")
    count = len(check_target(target, least=2))
    order = np.random.default_rng(seed).permutation(count)
    partners = np.empty(count, int)
    partners[order] = np.roll(order, 1)  # never itself
    classes = logits(model, target, batch_size).argmax(axis=1)
    mixed = logits(model, _Mixed(target, partners, share), batch_size)
    right = mixed.argmax(axis=1) == classes
    alike = classes == classes[partners]
    return float(sum(right[kind].mean() for kind in (alike, ~alike) if kind.any()) / 2)


class _Mixed:
    """Mixtures of examples, made where they are asked for; like an array."""

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
