from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.forward_pass import labelled_parts
from dann.adaptation.methods import METHODS
from dann.adaptation.model_parts import second_head as fitting_head


class HeadLogits(NamedTuple):
    """Logits of the two heads.

    Attributes:
        second_label: The second head's, for the labelled examples.
        target_first: The label head's, for the target behind the reversal.
        target_second: The second head's, for the target behind the reversal.
    """

    second_label: Any
    target_first: Any
    target_second: Any


@METHODS.register(
    "mcd",
    summary="two classifiers whose difference on the target is lowered",
    when="target examples near class borders",
)
@keras.saving.register_keras_serializable("dann")
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
        second_head: Functional model with the label head's shapes. Defaults to a new one with its
            layers, whose initializers must not be constants: heads that begin alike stay alike.

    The other arguments are those of `AdversarialModel`.

    Raises:
        ValueError: In `fit`, if both heads have equal weights.

    Example:

    >>> import dann
    >>> model = dann.MCD(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.second_head.name, model.second_head.output_shape
    ('second_head', (None, 3))

    Reference:
        - [Saito et al., 2018](https://arxiv.org/abs/1712.02560), section 3: the discrepancy and
          steps A to C; the supplementary material for the reversal that makes them one.
    """

    of_classes = True

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        strength=1.0,
        way="override",
        passes="joint",
        second_head=None,
        **kwargs,
    ):
        super().__init__(backbone, num_classes, label_head, strength, way, passes, **kwargs)
        self.second_head = second_head
        self.when_known(self._fit_second_head)
        self.track("second_label/loss", "discrepancy/loss")

    def _fit_second_head(self):
        self.second_head = fitting_head(self.second_head, self.label_head, "second_head")

    def make_train_function(self, force=False):
        if self.built:
            self._refuse_twins()  # not in the constructor: a file brings its weights later
        return super().make_train_function(force)

    def _refuse_twins(self):
        first, second = (head.get_weights() for head in (self.label_head, self.second_head))
        if all(map(np.array_equal, first, second)):
            raise ValueError(
                "The label head and the second head must begin with different weights, or they "
                "stay alike; give their initializers no constant. Received: heads with "
                "equal weights"
            )

    def adversary(self, features, logits, training, reversal):
        labelled = labelled_parts(features)
        target = reversal(features["target"], training=training)
        return HeadLogits(
            self.second_head(labelled, training=training),
            self.label_head(target, training=training),
            self.second_head(target, training=training),
        )

    def adversarial_losses(self, x, y, forward):
        heads = forward.adversary
        first, second = ops.softmax(heads.target_first), ops.softmax(heads.target_second)
        return {"discrepancy/loss": -ops.mean(ops.abs(first - second))}

    def task_loss(self, x, y, forward, sample_weight=None):
        second = self._second_label_loss(x, y, forward, sample_weight)
        return second + super().task_loss(x, y, forward, sample_weight)

    def pair_losses(self, x, y, forward, sample_weight=None, training=True):
        loss = self._second_label_loss(x, y, forward, sample_weight, training)
        losses = super().pair_losses(x, y, forward, sample_weight, training)
        name = "second_label/loss"
        return losses._replace(others={name: loss}, logged={**losses.logged, name: (loss,)})

    def _second_label_loss(self, x, y, forward, sample_weight, training=True):
        second = forward.adversary.second_label
        loss = self.compiled_loss(x, y, second, sample_weight, training)
        # Keras adds the losses of the layers, such as weight decay, to both; once is enough.
        for term in self.losses:
            loss = loss - ops.sum(term)
        return loss

    def get_config(self):
        return {
            **super().get_config(),
            "second_head": keras.saving.serialize_keras_object(self.second_head),
        }
