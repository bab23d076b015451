"""The label loss against its bounds, and whether the target's classes collapse."""

import math
from typing import Any

import numpy as np
from scipy import special

from dann.checks import check_class_range, check_shape
from dann.diagnostics.catalogue import CLASSIFIERS, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.losses import DataError
from dann.diagnostics.instruments.pair_outputs import pair_outputs

ONE_CLASS = 0.9  # share of the target in one class, if the labels' share is far below
UNLEARNT = 0.9  # label loss as a share of the loss if only the classes' shares are known


def _below_collapse(found):
    return -math.inf, max(ONE_CLASS, (1 + found.get("label/largest_share", 0.0)) / 2)


def _learnt(found):
    if "label/prior_entropy" not in found:
        return None
    return -math.inf, UNLEARNT * found["label/prior_entropy"]


@DIAGNOSTICS.register(
    "bounds",
    models=CLASSIFIERS,
    quick=True,
    order=50,
    healthy=(
        HealthyRange(
            "target/largest_share",
            "Largest predicted class of the target",
            "Share of target examples predicted as one class. Near 1 the target has collapsed.",
            given=_below_collapse,
            words=f"at most {ONE_CLASS:g}, or half way from label/largest_share to 1",
        ),
        HealthyRange(
            "label/loss",
            "Label loss",
            "In nats, on the source. A model that knows only the classes' shares has little more "
            "than the upper end.",
            given=_learnt,
            words=f"at most {UNLEARNT:g} label/prior_entropy",
        ),
    ),
)
def label_loss_baselines(model: Any, data: Any, *, batch_size: int = 256) -> dict[str, Any]:
    """Compares the label loss with that of a model without inputs; measures target predictions.

    `docs/diagnostics.md` lists the measurements with their formulas and healthy values.

    Args:
        data: As in every diagnostic, with integer labels `(n,)` or `(n, 1)`, or one-hot `(n, C)`.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If the model has one output, as in regression, or the labels are not numbers of
            its classes.

    Reference:
        - [Bridle et al., 1992](https://papers.nips.cc/paper/1991/hash/a8abb4bb284b5b27aa7cb790dc20f80b-Abstract.html),
          for the two entropies.
    """
    outputs = pair_outputs(model, data, batch_size)
    if model.num_classes < 2:
        raise ValueError(
            "Label bounds need classes: the label head must have at least 2 outputs. "
            f"Received: {model.num_classes}"
        )
    labels = outputs.labels
    if _is_one_hot(labels, model.num_classes):
        labels = labels.argmax(axis=1)
    why = "one label for each example, such as `labels.argmax(axis=1)`"
    check_shape("Labels of the source", labels.shape, ("batch",), why=why, error=DataError)
    labels = labels.astype(int)
    of_source, of_target = outputs.logits["source"], outputs.logits["target"]
    classes = model.num_classes
    check_class_range("Labels of the source", labels, classes, error=DataError)
    shares = np.bincount(labels, minlength=classes) / len(labels)
    with np.errstate(invalid="ignore"):  # the model may have diverged
        logarithms, own = (special.log_softmax(x, axis=1) for x in (of_target, of_source))
        entropy = float(-np.mean(np.sum(np.exp(logarithms) * logarithms, axis=1)))
    mean = np.exp(logarithms).mean(axis=0)
    own = own[np.arange(len(labels)), labels]
    return {
        "label/loss": float(-np.mean(own)),
        "label/accuracy": float(np.mean(of_source.argmax(axis=1) == labels)),
        "label/prior_entropy": float(special.entr(shares).sum()),
        "label/log_classes": float(np.log(classes)),
        "label/largest_share": float(shares.max()),
        "source/largest_share": _largest_share(of_source),
        "target/largest_share": _largest_share(of_target),
        "target/mean_prediction": mean,
        "target/prediction_entropy": float(special.entr(mean).sum()),
        "target/conditional_entropy": entropy,
    }


def _is_one_hot(labels, classes):
    if labels.shape[1:] != (classes,):
        return False
    return bool(np.all((labels == 0) | (labels == 1)) and np.all(labels.sum(axis=1) == 1))


def _largest_share(logits):
    return float(np.bincount(logits.argmax(axis=1)).max() / len(logits))
