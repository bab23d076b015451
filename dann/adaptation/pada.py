from typing import Any

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import DOMAIN_TERMS, check_smoothing, size_of
from dann.adaptation.fitting import mean_over_replicas
from dann.adaptation.networks import fitting_domain_head
from dann.checks import check_number, check_shape
from dann.layers.state import add_state


@METHODS.register("pada")
class PADA(AdversarialModel):
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

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing", "momentum")
    needs_target_logits = True
    needs_classes = True

    def __init__(
        self,
        *args,
        domain_head: Any = None,
        domain_label_smoothing: float = 0.0,
        momentum: float = 0.99,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.domain_head = fitting_domain_head(domain_head, self.feature_shape)
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)
        self.momentum = check_number("momentum", momentum, low=0, high=1.0)
        shape = (self.num_classes,)
        self.class_weights = add_state(self, "class_weights", "float32", 1.0, shape)

    def domain_scores(self, batch, reversal, training):
        return batch.behind_reversal(self.domain_head, reversal, training)

    def method_losses(self, batch, labels, reversal, training):
        # A step uses the weights that earlier steps have left.
        class_weights = ops.copy(self.class_weights)
        if training:
            self._follow(class_weights, ops.softmax(batch.logits["target"]))
        scores = self.domain_scores(batch, reversal, training)
        of_domain = self._with_ones(class_weights, labels, batch, size_of(scores))
        of_labels = self._with_ones(class_weights, labels, batch, size_of(batch.label_logits))
        if batch.weights is not None:
            of_labels *= ops.cast(ops.reshape(batch.weights, (-1,)), of_labels.dtype)
        label = self.label_loss(labels, batch.label_logits, of_labels)
        domain = batch.domain_terms(scores, self.domain_label_smoothing, of_domain)
        return {"label/loss": label, **domain}

    def _follow(self, class_weights, predictions):
        (seen,) = mean_over_replicas([ops.mean(ops.stop_gradient(predictions), axis=0)])
        kept = class_weights / ops.sum(class_weights)
        average = self.momentum * kept + (1 - self.momentum) * seen
        self.class_weights.assign(average / ops.max(average))

    def _with_ones(self, class_weights, labels, batch, size):
        """Returns the weights of the source's labels, and 1 for the rest of `size` examples."""
        if len(labels.shape) > 1 and labels.shape[-1] not in (1, None):
            why = "because `PADA` has a weight for each class"
            check_shape("labels", labels.shape, ("batch",), why=why)
        of_source = size_of(batch.logits["source"])
        classes = ops.cast(ops.reshape(labels, (-1,))[:of_source], "int32")
        weights = ops.take(class_weights, classes)
        return ops.concatenate([weights, ops.ones((size - of_source,), weights.dtype)])
