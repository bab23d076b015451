from typing import Any

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import at_least_single, labelled_parts
from dann.adaptation.networks import second_label_head


@METHODS.register("mcd")
class MCD(AdversarialModel):
    """Maximum classifier discrepancy, in one step.

    Two heads learn the source's labels and learn to differ on the target. Through a gradient
    reversal the backbone learns features for which they agree.

    With features `f`, heads `c1` and `c2`, `p1`, `p2` their probabilities and `L` the compiled
    loss, one step descends

    - for `c1` and `c2`: `mean_s L(c1(f(x_s)), y_s) + mean_s L(c2(f(x_s)), y_s) - M`, where
      `M = mean_t |p1(x_t) - p2(x_t)|`, a mean over the classes too
    - for `f`: `mean_s L(c1(f(x_s)), y_s) + mean_s L(c2(f(x_s)), y_s) + strength * M`

    The paper alternates between the two, with several steps of the features; with a reversal, both
    happen in one step. The classifier is `c1`.

    In training the logs also hold `second_label/loss`, the label loss of `c2`, and
    `discrepancy/loss`, which is `-M`.

    Args:
        strength: As in `AdversarialModel`, but defaults to `10.0`, as in the script. The paper's is
            1, with several steps of the features.
        second_head: Functional model with the label head's shapes. Defaults to a new one with its
            layers, whose initializers must not be constants: heads that begin alike stay alike.

    The other arguments are those of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.MCD(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.second_head.name, model.second_head.output_shape
    ('second_head', (None, 3))

    Reference:
        - [Saito et al., 2018](https://arxiv.org/abs/1712.02560), section 3: the discrepancy and
          steps A to C; the supplementary material for the reversal that makes them one.
    """

    terms = ("second_label/loss", "discrepancy/loss")
    arguments = ("second_head",)
    needs_classes = True

    def __init__(self, *args, strength: Any = 10.0, second_head: Any = None, **kwargs):
        super().__init__(*args, strength=strength, **kwargs)
        self.second_head = second_label_head("second_head", second_head, self)

    def method_losses(self, batch, labels, reversal, training):
        labelled = self.second_head(labelled_parts(batch.features), training=training)
        label = self.label_loss(labels, at_least_single(labelled), batch.weights)
        target = reversal(batch.features["target"], training=training)
        first, second = (
            ops.softmax(at_least_single(head(target, training=training)))
            for head in (self.label_head, self.second_head)
        )
        discrepancy = ops.mean(ops.abs(first - second))
        return {"second_label/loss": label, "discrepancy/loss": -discrepancy}
