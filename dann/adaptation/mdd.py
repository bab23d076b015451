from typing import Any

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import predicted
from dann.adaptation.labels import refuse_classes
from dann.adaptation.networks import second_label_head
from dann.checks import check_choice, check_number

DISPARITIES = ("margin", "absolute_error", "squared_error")
LOG_OFFSET = 1e-6  # keeps the logarithm finite where the adversarial head is certain


@METHODS.register("mdd")
class MDD(AdversarialModel):
    """Margin disparity discrepancy, for classification and for regression.

    An adversarial head with the label head's shape learns to agree with it on the source and to
    disagree on the target. Through a gradient reversal the backbone learns features for which that
    is impossible.

    With features `f`, label head `c`, adversarial head `a`, `L` the compiled loss and `CE` the
    cross-entropy from logits, one step descends

    - for `c`: `mean_s L(c(f(x_s)), y_s)`
    - for `a`: `D = gamma * mean_s agree(x_s) + mean_t disagree(x_t)`
    - for `f`: `mean_s L(c(f(x_s)), y_s) - strength * D`

    `disparity="margin"`, for classification: with `k = argmax c(f(x))`

    - `agree = CE(a(f(x)), k)`
    - `disagree = -log(1 - softmax(a(f(x)))_k + 1e-6)`

    For regression, where labels are numbers and the label head usually has one output:
    `agree = e` and `disagree = -e`, where `e` is the mean over the outputs of

    - `disparity="absolute_error"`: `|a(f(x)) - c(f(x))|`, the disparity of most regression papers;
      its slopes are bounded
    - `disparity="squared_error"`: `(a(f(x)) - c(f(x)))**2`

    Regression has no margin; `gamma=1` makes `-D` the plain disparity discrepancy. In both cases
    the label head's output gets no gradient from `D`.

    In training the logs also hold `disparity/loss`, which is `D`.

    Args:
        label_head: As in `AdversarialModel`; in regression it gives predictions.
        strength: As in `AdversarialModel`, but defaults to `0.1`, to which the authors and
            the script rise by `dann.schedules.WarmStart(high=0.1)`.
        adversarial_head: Functional model with the label head's shapes. Defaults to a new one with
            its layers.
        gamma: Weight of the source's part of `D`, above 0; the exponential of the margin. Defaults
            to `4.0`.
        disparity: `"margin"` (default), `"absolute_error"` or `"squared_error"`.

    The other arguments are those of `AdversarialModel`.

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
        *args,
        strength: Any = 0.1,
        adversarial_head: Any = None,
        gamma: float = 4.0,
        disparity: str = "margin",
        **kwargs,
    ):
        super().__init__(*args, strength=strength, **kwargs)
        self.disparity = check_choice("disparity", disparity, DISPARITIES)
        self.needs_classes = disparity == "margin"
        if self.num_classes == 1:
            refuse_classes(self, f"a label head of 1 output; errors are {DISPARITIES[1:]}")
        self.gamma = check_number("gamma", gamma, low=0, above=True)
        self.adversarial_head = second_label_head("adversarial_head", adversarial_head, self)

    def method_losses(self, batch, labels, reversal, training):
        scores = batch.behind_reversal(self.adversarial_head, reversal, training)
        source, target = batch.split_domains(scores)
        of_source, of_target = (
            ops.stop_gradient(batch.logits[name]) for name in ("source", "target")
        )
        if self.disparity == "margin":
            agree = -ops.sum(predicted(of_source) * ops.log_softmax(source), axis=-1)
            others = ops.sum((1 - predicted(of_target)) * ops.softmax(target), axis=-1)
            disagree = -ops.log(others + LOG_OFFSET)
        else:
            size = ops.abs if self.disparity == "absolute_error" else ops.square
            agree, disagree = size(source - of_source), -size(target - of_target)
        return {"disparity/loss": self.gamma * ops.mean(agree) + ops.mean(disagree)}
