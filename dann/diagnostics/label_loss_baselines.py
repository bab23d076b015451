"""The label loss against its bounds, and whether the target's classes collapse."""

from typing import Any

import numpy as np
from scipy import special

from dann.checks import check_class_range
from dann.data.conversion import to_class_indices
from dann.diagnostics.outputs import pair_outputs


def label_loss_baselines(model: Any, data: Any) -> dict[str, Any]:
    """Compares the label loss with that of a model without inputs; measures target predictions.

    With `p` the model's probabilities, in nats:

    - `label/loss`, `label/accuracy`: cross-entropy and accuracy on the source
    - `label/prior_entropy`: entropy of the classes' shares among the labels, which is the loss of a
      model that knows only them
    - `label/largest_share`: share of the largest class among the labels
    - `target/largest_share`: share of the largest class among the predictions for the target
    - `target/share_distance`: half the sum of the absolute differences between the classes' shares
      among these predictions and among the labels; `target/chance_share_distance`, what chance alone gives;
      `target/confident_share_distance`, the same without the quarter of the target with the smallest
      largest `p`

    Args:
        data: As in every diagnostic, with integer labels `(n,)` or `(n, 1)`, or one-hot `(n, C)`.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If the labels are not numbers of the model's classes, as in regression.

    Reference:
        - [Lipton et al., 2018](https://arxiv.org/abs/1802.03916), on label shift and when the
          predicted shares show it.
    """
    outputs = pair_outputs(model, data)
    of_source, of_target = outputs.logits["source"], outputs.logits["target"]
    labels = to_class_indices(np.asarray(data[1])[: len(of_source)])  # without a labelled target's
    classes = model.num_classes
    check_class_range("labels of the source", labels, classes)
    shares = np.bincount(labels, minlength=classes) / len(labels)
    with np.errstate(invalid="ignore"):  # the model may have diverged
        logarithms, own = (special.log_softmax(x, axis=1) for x in (of_target, of_source))
    sure = logarithms.max(axis=1).argsort()[len(of_target) // 4 :]
    predicted, surely = (
        np.bincount(part.argmax(axis=1), minlength=classes) / len(part)
        for part in (of_target, of_target[sure])
    )
    # The mean absolute value of a normal variable is sqrt(2 / pi) of its deviation.
    deviations = np.sqrt(shares * (1 - shares) * (1 / len(labels) + 1 / len(of_target)))
    own = own[np.arange(len(labels)), labels]
    return {
        "label/loss": float(-np.mean(own)),
        "label/accuracy": float(np.mean(of_source.argmax(axis=1) == labels)),
        "label/prior_entropy": float(special.entr(shares).sum()),
        "label/largest_share": float(shares.max()),
        "target/largest_share": float(predicted.max()),
        "target/share_distance": float(np.abs(predicted - shares).sum() / 2),
        "target/confident_share_distance": float(np.abs(surely - shares).sum() / 2),
        "target/chance_share_distance": float(deviations.sum() / np.sqrt(2 * np.pi)),
    }
