"""The label loss against its bounds, and whether the target's classes collapse."""

from typing import Any

import numpy as np
from scipy import special

from dann.diagnostics.outputs import pair_outputs


def label_bounds(model: Any, data: Any, *, batch_size: int = 256) -> dict[str, Any]:
    """Measures the label loss against what is known without inputs, and the target's predictions.

    With `p(x)` the predicted probabilities, `q` the shares of the source's labels, `H` the entropy
    in nats and `C` the number of classes,

    - `label/loss`, `label/accuracy`: on the source
    - `label/prior_entropy = H(q)`: the loss of knowing the shares alone. Healthy: `label/loss` far
      below
    - `label/log_classes = log C`: the loss of knowing nothing
    - `label/largest_share = max q`
    - `source/largest_share`, `target/largest_share`: the largest share of examples predicted to be
      of one class. Healthy: near that of the labels. The target's at 1 means that all of it is
      predicted as one class
    - `target/mean_prediction = mean_t p(x)`, an array `(C,)`
    - `target/prediction_entropy = H(mean_t p(x))`. Healthy: near `H(q)`, if the target has the
      classes of the source; towards 0 where the classes collapse
    - `target/conditional_entropy = mean_t H(p(x))`. Healthy: falls, while `prediction_entropy` does
      not

    Args:
        model: Model of `dann.adaptation` of 2 classes or more.
        data: `({"source": xs, "target": xt}, ys)`, with integer labels `(n,)` or `(n, 1)`, or
            one-hot `(n, C)`.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        Measurements by name.

    Raises:
        TypeError: If it is another model.
        ValueError: If the model has one output, as in regression, or the labels are no integers, or
            none of its classes.

    Reference:
        - [Bridle et al., 1992](https://papers.nips.cc/paper/1991/hash/a8abb4bb284b5b27aa7cb790dc20f80b-Abstract.html),
          for the two entropies.
    """
    outputs = pair_outputs(model, data, batch_size)
    if model.num_classes < 2:
        raise ValueError(
            "Label bounds are those of classes; the label head must have at least 2 outputs. "
            f"Received: {model.num_classes}"
        )
    labels = outputs.labels
    if _is_one_hot(labels, model.num_classes):
        labels = labels.argmax(axis=1)
    if labels.ndim > 1:
        raise ValueError(
            "Label bounds need one label an example, an integer or one-hot, such as "
            f"`labels.argmax(axis=1)`. Received: labels of shape {labels.shape}"
        )
    labels = labels.astype(int)
    of_source, of_target = outputs.logits["source"], outputs.logits["target"]
    classes = model.num_classes
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"Labels must be whole numbers from 0 to {classes - 1}, the number of the class. "
            f"Received: labels from {labels.min()} to {labels.max()}"
        )
    shares = np.bincount(labels, minlength=classes) / len(labels)
    with np.errstate(invalid="ignore"):  # of a model that diverged
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
