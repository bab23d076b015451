"""Label loss of a constant model, and class proportions of the predictions and of the source."""

from typing import Any

import numpy as np
from scipy import special

from dann.checks import check_class_range
from dann.data.conversion import to_class_indices
from dann.diagnostics.outputs import pair_outputs


def label_loss_baselines(model: Any, data: Any) -> dict[str, Any]:
    """Compares the label loss with the loss of a constant model, and measures target predictions.

    With `p` the probabilities of the model, in nats:

    - `label/loss`, `label/accuracy`: cross-entropy and accuracy on the source
    - `label/prior_entropy`: entropy of the class proportions of the labels, which is the loss of a
      model that predicts these proportions for every input
    - `label/largest_share`: frequency of the most frequent class among the labels
    - `target/largest_share`: frequency of the most frequent class among the predictions for the
      target
    - `target/share_distance`: half the sum of the absolute differences between the class
      proportions of these predictions and of the labels
    - `target/confident_share_distance`: the same distance without the quarter of the target with
      the smallest `max p`
    - `target/chance_share_distance`: the expected distance between two samples of one distribution

    Args:
        model: Model of `dann.adaptation`.
        data: One batch (see `dann.diagnostics.catalogue`), with integer labels `(n,)` or `(n, 1)`,
            or one-hot labels `(n, num_classes)`.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If the labels are not classes of the model, for example in regression.

    Reference:
        - [Lipton et al., 2018](https://arxiv.org/abs/1802.03916), on label shift and when predicted
          class proportions reveal it.
    """
    outputs = pair_outputs(model, data)
    source_logits, target_logits = outputs.logits["source"], outputs.logits["target"]
    # The labels of a labeled target follow the labels of the source.
    labels = to_class_indices(np.asarray(data[1])[: len(source_logits)])
    check_class_range("labels of the source", labels, model.num_classes)

    def compute_shares(classes):
        return np.bincount(classes, minlength=model.num_classes) / len(classes)

    expected = compute_shares(labels)
    with np.errstate(invalid="ignore"):  # the model may have diverged
        source_log_p = special.log_softmax(source_logits, axis=1)
        target_log_p = special.log_softmax(target_logits, axis=1)
    predictions = target_logits.argmax(axis=1)
    # Without the quarter of the examples with the least confident predictions.
    confident = target_log_p.max(axis=1).argsort()[len(predictions) // 4 :]
    predicted = compute_shares(predictions)
    predicted_confident = compute_shares(predictions[confident])
    # The difference of two proportions is about normal with this deviation, so its mean absolute
    # value is sqrt(2 / pi) times the deviation.
    deviations = np.sqrt(expected * (1 - expected) * (1 / len(labels) + 1 / len(predictions)))
    return {
        "label/loss": float(-np.mean(source_log_p[np.arange(len(labels)), labels])),
        "label/accuracy": float(np.mean(source_logits.argmax(axis=1) == labels)),
        "label/prior_entropy": float(special.entr(expected).sum()),
        "label/largest_share": float(expected.max()),
        "target/largest_share": float(predicted.max()),
        "target/share_distance": float(np.abs(predicted - expected).sum() / 2),
        "target/confident_share_distance": float(np.abs(predicted_confident - expected).sum() / 2),
        "target/chance_share_distance": float(deviations.sum() / np.sqrt(2 * np.pi)),
    }
