from collections.abc import Callable
from typing import Any

import numpy as np

from dann.selection.logistic import fit_logistic
from dann.selection.predictions import check_target, features, logits, source_logits
from dann.selection.scores import SCORES


@SCORES.register(
    "reverse_validation",
    summary="Source accuracy of a classifier trained on the target's predicted classes.",
    reads="labelled source, target",
    cost="fits a logistic regression to the features",
    of_features=True,
    paper="[Zhong et al., 2010](https://doi.org/10.1007/978-3-642-15939-8_35)",
)
def reverse_validation(
    model: Any,
    *,
    source: Any,
    target: Any,
    batch_size: int = 256,
    fit: Callable[[Any, np.ndarray], Callable[[Any], Any]] | None = None,
) -> float:
    """Scores a checkpoint by a classifier trained on its predictions, tested on the source.

    A reverse classifier `r` is trained on the target's inputs with the classes that the model
    predicts for them, and tested on held-out source examples:

    - `mean over the source of [r(x) = y]`, in [0, 1]

    The paper trains `r` with the method itself, with exchanged domains, which takes another whole
    training; pass it as `fit`. The default is cheap: a logistic regression on the model's features.

    Shared arguments and errors: see `dann.selection.compute_scores`.

    Args:
        model: `dann.adaptation.AdversarialModel`, or with `fit` any Keras model from inputs to
            logits.
        fit: Function of target inputs and predicted labels `(n,)` that trains a fresh classifier
            and returns a function from inputs to labels `(m,)`. Defaults to `None`.

    Example:

    >>> import keras, numpy as np
    >>> from dann.selection import reverse_validation
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> def fit(inputs, labels):
    ...     return KNeighborsClassifier(1).fit(inputs, labels).predict
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Identity()])
    >>> x = np.eye(2, dtype="float32")
    >>> reverse_validation(model, source=(x, np.array([0, 1])), target=2 * x, fit=fit)
    1.0

    Reference:
        - [Zhong et al., 2010](https://doi.org/10.1007/978-3-642-15939-8_35), section 3.
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), section 5.1.2.
    """
    target = check_target(model, target)
    inputs, labels, of_source = source_logits(model, source, batch_size)
    pseudo_labels = logits(model, target, batch_size).argmax(axis=1)
    if fit is None:
        num_classes = of_source.shape[1]
        predict = fit_logistic(features(model, target, batch_size), pseudo_labels, num_classes)
        predicted = predict(features(model, inputs, batch_size)).argmax(axis=1)
    else:
        predicted = np.asarray(fit(target, pseudo_labels)(inputs))
    if predicted.shape != labels.shape:
        raise ValueError(
            "The function that `fit` returns must give one label for each input. "
            f"Received: {predicted.shape} for {len(labels)} inputs"
        )
    return float(np.mean(predicted == labels))
