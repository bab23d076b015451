"""Labels of classes, in the forms in which users have them."""

from typing import Any

import numpy as np

ENCODE_LABELS_HINT = "`names, numbers = np.unique(labels, return_inverse=True)` numbers them"


def class_numbers(labels: Any, name: str = "labels") -> np.ndarray:
    """Returns the class of each example, integers `(n,)`.

    Args:
        labels: Whole numbers of any type or booleans, `(n,)` or one column `(n, 1)`, or one-hot
            `(n, classes)`.
        name: What messages call them.

    Raises:
        ValueError: If they are neither; for strings the message says how to number them.

    Example:

    >>> from dann.data.labels import class_numbers
    >>> class_numbers([[0, 1], [1, 0]]).tolist(), class_numbers([[2.0], [0.0]]).tolist()
    ([1, 0], [2, 0])
    """
    found = np.asarray(labels)
    if found.dtype.kind in "USO":
        raise ValueError(
            f"The {name} must be numbers; {ENCODE_LABELS_HINT}. Received: {found.dtype} such as "
            f"{found.flat[0]!r}"
        )
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim == 2 and np.isin(found, (0, 1)).all() and (found.sum(axis=1) == 1).all():
        return found.argmax(axis=1)
    if found.ndim != 1 or found.dtype.kind not in "iubf" or (found != np.round(found)).any():
        raise ValueError(
            f"The {name} must be the number of a class for each example, or one-hot; of maps only "
            "what a model pools is compared, as by "
            "`keras.Sequential([model.classifier, keras.layers.GlobalAveragePooling2D()])`. "
            f"Received: {found.dtype} of shape {found.shape}"
        )
    return found.astype("int64", copy=False)
