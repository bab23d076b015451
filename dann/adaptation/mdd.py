import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.second_head import second_head
from dann.checks import check_number

DISPARITIES = ("margin", "absolute_error", "squared_error")
LOG_OFFSET = 1e-6  # keeps the logarithm finite where the adversarial head is certain


@keras.saving.register_keras_serializable("dann")
class MDD(AdversarialModel):
    """Margin disparity discrepancy, for classification and for regression.

    An adversarial head, shaped like the label head, learns to agree with it on the source and to
    disagree on the target; through a gradient reversal the backbone learns features on which that
    cannot be done.

    With features `f`, label head `c`, adversarial head `a`, `L` the compiled loss and `CE` the
    cross-entropy from logits, one step descends

    - for `c`: `mean_s L(c(f(x_s)), y_s)`
    - for `a`: `D = gamma * mean_s agree(x_s) + mean_t disagree(x_t)`
    - for `f`: `mean_s L(c(f(x_s)), y_s) - strength * D`

    `disparity="margin"`, for classification: with `k = argmax c(f(x))`

    - `agree = CE(a(f(x)), k)`
    - `disagree = -log(1 - softmax(a(f(x)))_k + 1e-6)`

    For regression, where labels are continuous and the label head mostly has one output:
    `agree = e` and `disagree = -e`, with `e` the mean over the outputs of

    - `disparity="absolute_error"`: `|a(f(x)) - c(f(x))|`, the disparity of most regression papers;
      its slopes are bounded
    - `disparity="squared_error"`: `(a(f(x)) - c(f(x)))**2`

    There is no margin in regression, and `gamma=1` makes `-D` the plain disparity discrepancy. In
    both cases what the label head says gets no gradient from `D`.

    In training the logs also hold `disparity/loss`, which is `D`.

    Args:
        backbone: Functional model from inputs to features `(batch, num_features)`.
        num_classes: Number of classes. Needed where `label_head` is not given.
        label_head: Functional model from features to logits, or to predictions in regression.
            Defaults to `dann.networks.label_head`.
        strength: Strength of the reversal: a number of at least 0, or a schedule of
            `dann.schedules`. Defaults to `0.1`, to which the authors rise by
            `dann.schedules.WarmStart(high=0.1)`.
        way: How the reversal is built; see `dann.layers.GradientReversal`.
        passes: `"joint"` (default) or `"separate"`; see `AdversarialModel`.
        adversarial_head: Functional model like the label head. Defaults to a new one of its layers.
        gamma: Weight of the source's part of `D`, above 0; the exponential of the margin. Defaults
            to `4.0`.
        disparity: `"margin"` (default), `"absolute_error"` or `"squared_error"`.
        augmentation: Layers by domain; see `AdversarialModel`.
        regularizers: Losses that join; see `AdversarialModel`.

    Raises:
        ValueError: If the parts do not fit each other, `disparity` is unknown or does not fit the
            label head, or `gamma` is out of range.

    Example:

    >>> import dann
    >>> model = dann.MDD(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.adversarial_head.name, model.adversarial_head.output_shape
    ('adversarial_head', (None, 3))

    Reference:
        - [Zhang et al., 2019](https://arxiv.org/abs/1904.05801), definitions 3.1 (without a margin,
          as in regression) and 3.2, and section 4: the minimax problem with cross-entropies, and
          proposition 4.1 for the margin `log(gamma)`.
    """

    classifies_target = True

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        strength=0.1,
        way="override",
        passes="joint",
        adversarial_head=None,
        gamma=4.0,
        disparity="margin",
        **kwargs,
    ):
        super().__init__(backbone, num_classes, label_head, strength, way, passes, **kwargs)
        if disparity not in DISPARITIES:
            raise ValueError(
                f"Argument `disparity` must be one of {DISPARITIES}. Received: {disparity!r}"
            )
        if disparity == "margin" and self.num_classes == 1:
            raise ValueError(
                "`disparity='margin'` compares classes; a label head of one output is for "
                f"regression and takes one of {DISPARITIES[1:]}. Received: disparity={disparity!r}"
            )
        self.disparity = disparity
        self.gamma = check_number("gamma", gamma, low=0, above=True)
        self.adversarial_head = second_head(adversarial_head, self.label_head, "adversarial_head")
        self.track("disparity/loss")

    def adversary(self, features, logits, training):
        return self.through_reversal(self.adversarial_head, features, training)

    def adversarial_losses(self, x, y, forward):
        agree = self._disparity("source", forward)
        disagree = self._disparity("target", forward)
        return {"disparity/loss": self.gamma * ops.mean(agree) + ops.mean(disagree)}

    def _disparity(self, domain, forward):
        """What the adversarial head loses on each example of the domain `(batch,)`."""
        scores = getattr(forward.adversary, domain)
        label = ops.stop_gradient(forward.logits[domain])
        if self.disparity == "margin":
            classes = ops.one_hot(ops.argmax(label, axis=-1), self.num_classes, dtype=scores.dtype)
            if domain == "source":
                return -ops.sum(classes * ops.log_softmax(scores), axis=-1)
            # The sum of the other classes, not one minus this one, which would round to 0.
            return -ops.log(ops.sum((1 - classes) * ops.softmax(scores), axis=-1) + LOG_OFFSET)
        size = ops.abs if self.disparity == "absolute_error" else ops.square
        error = ops.mean(size(scores - label), axis=-1)
        return error if domain == "source" else -error

    def get_config(self):
        return {
            **super().get_config(),
            "adversarial_head": keras.saving.serialize_keras_object(self.adversarial_head),
            "gamma": self.gamma,
            "disparity": self.disparity,
        }
