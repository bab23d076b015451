from typing import Any, Unpack

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import join_labeled_parts, upcast_half
from dann.adaptation.networks import make_second_head
from dann.adaptation.options import ReversalOptions
from dann.schedules import StrengthSchedule


@METHODS.register("mcd")
class MCD(AdversarialModel):
    """Maximum classifier discrepancy, in one step.

    Two heads learn the labels of the source and learn to differ on the target. Through a gradient
    reversal, the backbone learns features on which the heads agree.

    With features `f`, heads `c1` and `c2`, `p1`, `p2` their probabilities and `L` the compiled
    loss, each step minimizes

    - for `c1` and `c2`: `mean_s L(c1(f(x_s)), y_s) + mean_s L(c2(f(x_s)), y_s) - M`, where
      `M = mean_t |p1(x_t) - p2(x_t)|` is also a mean over the classes
    - for `f`: `mean_s L(c1(f(x_s)), y_s) + mean_s L(c2(f(x_s)), y_s) + strength * M`

    The paper alternates between these steps, with several steps for the features. With a reversal,
    both happen in one step. The classifier is `c1`.

    In training the logs also contain `second_label/loss`, the label loss of `c2`, and
    `discrepancy/loss`, which is `-M`.

    Args:
        backbone: Network from inputs to features; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        strength: Strength of the gradient reversal; see `AdversarialModel`. Defaults to `10.0`, as
            in `scripts/train.py method=mcd`. The paper uses 1, with several steps for the features.
        second_head: Functional model with the input and output shapes of the label head. Defaults
            to a new model with the layers of the label head. The initializers must not be
            constants, because heads that start with equal weights stay equal.
        **options: The other options of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.MCD(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.second_head.name, model.second_head.output_shape
    ('second_head', (None, 3))

    Reference:
        - [Saito et al., 2018](https://arxiv.org/abs/1712.02560), section 3: the discrepancy and
          steps A to C; the supplementary material describes the reversal that joins the steps.
    """

    terms = ("second_label/loss", "discrepancy/loss")
    arguments = ("second_head",)
    needs_classes = True

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule = 10.0,
        second_head: Any = None,
        **options: Unpack[ReversalOptions],
    ):
        super().__init__(backbone, num_classes, label_head, strength=strength, **options)
        self.second_head = make_second_head("second_head", second_head, self)

    def method_losses(self, batch, reversal, training):
        logits = self.second_head(join_labeled_parts(batch.features), training=training)
        label_loss = self.label_loss(batch.labels, upcast_half(logits), batch.weights)
        target = reversal(batch.features["target"], training=training)
        # p1 and p2, (batch, classes) each, through the reversal
        first, second = (
            ops.softmax(upcast_half(head(target, training=training)))
            for head in (self.label_head, self.second_head)
        )
        discrepancy = ops.mean(ops.abs(first - second))
        return {"second_label/loss": label_loss, "discrepancy/loss": -discrepancy}
