from typing import Any, NamedTuple

import keras
from keras import ops

from dann.adaptation.dann import DANN
from dann.adaptation.forward_pass import DomainScores
from dann.adaptation.methods import METHODS
from dann.adaptation.replicas import mean_over_replicas
from dann.checks import check_number, check_shape


class WeighedScores(NamedTuple):
    """The discriminator's logits, and the class weights of the step `(num_classes,)`."""

    scores: DomainScores
    class_weights: Any


@METHODS.register(
    "pada",
    summary="classes that the target lacks lose weight",
    when="the target has fewer classes",
)
@keras.saving.register_keras_serializable("dann")
class PADA(DANN):
    """Partial adversarial domain adaptation, for a target that lacks some of the source's classes.

    DANN that estimates from the target's predictions which classes are there, and lets source
    examples of the other classes count less. So the target is not aligned with classes it lacks.

    With features `f`, label head `c`, discriminator `d`, domain label 0 for source and 1 for
    target, `CE`, `BCE` the cross-entropies from logits and class weights `w`, one step descends

    - for `c`: `L = mean_s w[y_s] * CE(c(f(x_s)), y_s)`
    - for `d`: `D = mean over both domains of v(x) * BCE(d(f(x)), domain)`, with `v = w[y_s]` in the
      source and 1 in the target
    - for `f`: `L - strength * D`

    and then, with `p` the mean of `softmax(c(f(x_t)))` over the batch,

    - `q = momentum * w / sum(w) + (1 - momentum) * p`
    - `w = q / max(q)`

    so that `w` is the moving average of the predictions divided by its maximum. It starts at 1 for
    each class; the non-trainable weight `class_weights` holds it. The paper computes the average
    over the whole target, again from time to time.

    Labels are integers. Examples of a labelled target weigh 1. In training the logs also hold
    `domain/loss` and `domain/accuracy`.

    Args:
        momentum: What the moving average keeps in a step, in [0, 1]. Defaults to `0.99`.

    The other arguments are those of `DANN`.

    Raises:
        ValueError: If labels are one-hot.

    Example:

    >>> import dann
    >>> model = dann.PADA(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.class_weights.numpy().tolist()
    [1.0, 1.0, 1.0]

    Reference:
        - [Cao et al., 2018](https://arxiv.org/abs/1808.04205), section 3.2: the class
          weights, and the objective that they weigh.
    """

    takes_maps = False
    classifies_target = True
    of_classes = True

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        domain_head=None,
        strength=1.0,
        way="override",
        passes="joint",
        domain_label_smoothing=0.0,
        momentum=0.99,
        **kwargs,
    ):
        super().__init__(
            backbone,
            num_classes,
            label_head,
            domain_head,
            strength,
            way,
            passes,
            domain_label_smoothing,
            **kwargs,
        )
        self.momentum = check_number("momentum", momentum, low=0, high=1.0)
        self.class_weights = self.add_weight(
            name="class_weights",
            shape=(self.num_classes,),
            dtype="float32",
            initializer="ones",
            trainable=False,
            autocast=False,
            aggregation="mean",
        )

    def adversary(self, features, logits, training, reversal):
        # A step uses the weights that earlier steps have left.
        class_weights = ops.copy(self.class_weights)
        if training:
            self._follow(class_weights, ops.softmax(logits["target"]))
        scores = super().adversary(features, logits, training, reversal)
        return WeighedScores(scores, class_weights)

    def domain_scores(self, forward):
        return forward.adversary.scores

    def _follow(self, class_weights, predictions):
        mine = ops.mean(ops.cast(ops.stop_gradient(predictions), "float32"), axis=0)
        (seen,) = mean_over_replicas([mine])
        kept = class_weights / ops.sum(class_weights)
        average = self.momentum * kept + (1 - self.momentum) * seen
        self.class_weights.assign(average / ops.max(average))

    def label_loss(self, x, y, forward, sample_weight=None, training=True):
        weights = self._with_ones(y, forward, ops.shape(forward.label)[0])
        if sample_weight is not None:
            weights = weights * ops.cast(ops.reshape(sample_weight, (-1,)), weights.dtype)
        return super().label_loss(x, y, forward, weights, training)

    def domain_weights(self, y, forward):
        source, target = self.domain_scores(forward)
        return self._with_ones(y, forward, ops.shape(source)[0] + ops.shape(target)[0])

    def _with_ones(self, y, forward, size):
        """Returns the weights of the source's labels, and 1 for the rest of `size` examples."""
        if len(y.shape) > 1 and y.shape[-1] not in (1, None):
            why = "because `PADA` has a weight for each class"
            check_shape("Labels", y.shape, ("batch",), why=why)
        of_source = ops.shape(forward.logits["source"])[0]
        labels = ops.cast(ops.reshape(y, (-1,))[:of_source], "int32")
        weights = ops.take(forward.adversary.class_weights, labels)
        return ops.concatenate([weights, ops.ones((size - of_source,), weights.dtype)])

    def get_config(self):
        return {**super().get_config(), "momentum": self.momentum}
