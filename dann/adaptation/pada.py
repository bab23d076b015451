from typing import Any, Unpack

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import DOMAIN_TERMS, check_smoothing, count_examples
from dann.adaptation.networks import make_domain_head
from dann.adaptation.options import MethodOptions
from dann.adaptation.replicas import average_over_replicas
from dann.checks import check_number, check_shape
from dann.layers.state import add_state


@METHODS.register("pada")
class PADA(AdversarialModel):
    """Partial adversarial domain adaptation, for a target that lacks some of the source's classes.

    DANN that estimates from the target's predictions which classes the target contains, and reduces
    the weights of source examples of other classes. The target is then not aligned with classes
    that it lacks.

    With features `f`, label head `c`, discriminator `d`, domain label 0 for source and 1 for
    target, `CE`, `BCE` the cross-entropies from logits and class weights `w`, one step descends

    - for `c`: `L = mean_s w[y_s] * CE(c(f(x_s)), y_s)`
    - for `d`: `D = mean over both domains of v(x) * BCE(d(f(x)), domain)`, with `v = w[y_s]` in the
      source and 1 in the target
    - for `f`: `L - strength * D`

    and then updates the weights, with `p` the mean of `softmax(c(f(x_t)))` over the batch:

    - `q = momentum * w / sum(w) + (1 - momentum) * p`
    - `w = q / max(q)`

    So `w` is the moving average of the predictions divided by its maximum. It starts at 1 for each
    class and is stored in the non-trainable weight `class_weights`. The paper instead computes the
    average over the whole target at intervals.

    Labels are integers. Examples of a labeled target have weight 1. In training the logs also
    contain `domain/loss` and `domain/accuracy`.

    Args:
        backbone: As in `AdversarialModel`.
        num_classes: As in `AdversarialModel`.
        label_head: As in `AdversarialModel`.
        domain_head: As in `DANN`.
        domain_label_smoothing: As in `DANN`. Defaults to `0.0`.
        momentum: Share of the moving average that a step retains, in [0, 1]. Defaults to `0.99`.
        **options: Options of `AdversarialModel`.

    Raises:
        ValueError: If labels are one-hot.

    Example:

    >>> import dann
    >>> model = dann.PADA(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.class_weights.numpy().tolist()
    [1.0, 1.0, 1.0]

    Reference:
        - [Cao et al., 2018](https://arxiv.org/abs/1808.04205), section 3.2: the class weights and
          the weighted objective.
    """

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing", "momentum")
    needs_target_logits = True
    needs_classes = True

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        domain_head: Any = None,
        domain_label_smoothing: float = 0.0,
        momentum: float = 0.99,
        **options: Unpack[MethodOptions],
    ):
        super().__init__(backbone, num_classes, label_head, **options)
        self.domain_head = make_domain_head(domain_head, self.feature_shape)
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)
        self.momentum = check_number("momentum", momentum, low=0, high=1.0)
        shape = (self.num_classes,)
        self.class_weights = add_state(self, "class_weights", "float32", 1.0, shape)

    def domain_scores(self, batch, reversal, training):
        return batch.apply_reversed(self.domain_head, reversal, training)

    def method_losses(self, batch, reversal, training):
        # A copy, because a step uses the weights from before its own update.
        class_weights = ops.copy(self.class_weights)
        if training:
            self._update_weights(class_weights, ops.softmax(batch.logits["target"]))
        scores = self.domain_scores(batch, reversal, training)
        domain_weights = _example_weights(class_weights, batch, count_examples(scores))
        label_logits = batch.label_logits
        label_weights = _example_weights(class_weights, batch, count_examples(label_logits))
        if batch.weights is not None:
            label_weights *= ops.cast(ops.reshape(batch.weights, (-1,)), label_weights.dtype)
        label_loss = self.label_loss(batch.labels, label_logits, label_weights)
        domain = batch.domain_terms(scores, self.domain_label_smoothing, domain_weights)
        return {"label/loss": label_loss, **domain}

    def _update_weights(self, class_weights, predictions):
        means = [ops.mean(ops.stop_gradient(predictions), axis=0)]
        (prediction,) = average_over_replicas(means)  # (classes,)
        shares = class_weights / ops.sum(class_weights)
        average = self.momentum * shares + (1 - self.momentum) * prediction
        self.class_weights.assign(average / ops.max(average))


def _example_weights(class_weights, batch, size):
    """Returns the class weights of the source examples, and 1 for the rest of `size` examples."""
    labels = batch.labels
    if len(labels.shape) > 1 and labels.shape[-1] not in (1, None):
        hint = "because `PADA` has a weight for each class"
        check_shape("labels", labels.shape, ("batch",), hint=hint)
    num_source = count_examples(batch.logits["source"])
    classes = ops.cast(ops.reshape(labels, (-1,))[:num_source], "int32")
    weights = ops.take(class_weights, classes)
    return ops.concatenate([weights, ops.ones((size - num_source,), weights.dtype)])
