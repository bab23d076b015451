from typing import Any, Unpack

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import predict_one_hot
from dann.adaptation.labels import require_exclusive_classes
from dann.adaptation.networks import make_second_head
from dann.adaptation.options import ReversalOptions
from dann.checks import check_choice, check_number
from dann.schedules import StrengthSchedule

DISPARITIES = ("margin", "absolute_error", "squared_error")
LOG_OFFSET = 1e-6  # keeps the logarithm finite if the adversarial head is overconfident


@METHODS.register("mdd")
class MDD(AdversarialModel):
    """Margin disparity discrepancy, for classification and for regression.

    An adversarial head learns to agree with the label head on the source and to disagree with it on
    the target. Through a gradient reversal, the backbone learns features on which the heads cannot
    disagree on the target alone.

    With features `f`, label head `c`, adversarial head `a`, `L` the compiled loss and `CE` the
    cross-entropy from logits, each step minimizes

    - for `c`: `mean_s L(c(f(x_s)), y_s)`
    - for `a`: `D = gamma * mean_s agree(x_s) + mean_t disagree(x_t)`
    - for `f`: `mean_s L(c(f(x_s)), y_s) - strength * D`

    `disparity="margin"`, for classification: with `k = argmax c(f(x))`

    - `agree = CE(a(f(x)), k)`
    - `disagree = -log(1 - softmax(a(f(x)))_k + 1e-6)`

    For regression, where labels are numbers and the label head usually has one output:
    `agree = e` and `disagree = -e`, where `e` is the mean over the outputs of

    - `disparity="absolute_error"`: `|a(f(x)) - c(f(x))|`, the disparity of most regression papers,
      with bounded gradients
    - `disparity="squared_error"`: `(a(f(x)) - c(f(x)))**2`

    Regression has no margin; with `gamma=1`, `-D` is the plain disparity discrepancy. The label
    head never receives a gradient from `D`.

    In training the logs also contain `disparity/loss`, which is `D`.

    Args:
        backbone: Network from inputs to features; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits or, for regression, to predictions; see
            `AdversarialModel`.
        strength: Strength of the gradient reversal; see `AdversarialModel`. Defaults to `0.1`. The
            authors' code and `scripts/train.py` raise the strength gradually to 0.1, with
            `dann.schedules.WarmStart(high=0.1)`.
        adversarial_head: Functional model with the input and output shapes of the label head.
            Defaults to a new model with the layers of the label head.
        gamma: Factor of the source's part of `D`, above 0. Its logarithm is the margin. Defaults to
            `4.0`.
        disparity: `"margin"` (default), `"absolute_error"` or `"squared_error"`.
        **options: The other options of `AdversarialModel`.

    Raises:
        ValueError: If `disparity` is unknown or does not fit the label head.

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

    terms = ("disparity/loss",)
    arguments = ("adversarial_head", "gamma", "disparity")
    needs_target_logits = True

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule = 0.1,
        adversarial_head: Any = None,
        gamma: float = 4.0,
        disparity: str = "margin",
        **options: Unpack[ReversalOptions],
    ):
        super().__init__(backbone, num_classes, label_head, strength=strength, **options)
        self.disparity = check_choice("disparity", disparity, DISPARITIES)
        self.needs_classes = disparity == "margin"
        if self.num_classes == 1:
            hint = "for regression use `disparity='absolute_error'` or `'squared_error'`"
            require_exclusive_classes(self, f"a label head with 1 output; {hint}")
        self.gamma = check_number("gamma", gamma, low=0, exclude_low=True)
        self.adversarial_head = make_second_head("adversarial_head", adversarial_head, self)

    def method_losses(self, batch, reversal, training):
        scores = batch.apply_reversed(self.adversarial_head, reversal, training)
        source, target = batch.split_domains(scores)
        source_logits, target_logits = (
            ops.stop_gradient(batch.logits[name]) for name in ("source", "target")
        )
        if self.disparity == "margin":
            # Section 4: cross-entropy on the source, and its complement on the target.
            log_p = ops.log_softmax(source)  # (batch, classes)
            source_disparity = -ops.sum(predict_one_hot(source_logits) * log_p, axis=-1)
            # 1 - softmax_k, computed as a sum over the other classes to avoid cancellation.
            complement = ops.sum(
                (1 - predict_one_hot(target_logits)) * ops.softmax(target), axis=-1
            )
            target_disparity = -ops.log(complement + LOG_OFFSET)
        else:
            error = ops.abs if self.disparity == "absolute_error" else ops.square
            source_disparity = error(source - source_logits)
            target_disparity = -error(target - target_logits)
        loss = self.gamma * ops.mean(source_disparity) + ops.mean(target_disparity)
        return {"disparity/loss": loss}
