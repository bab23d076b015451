"""Labels of classes, in the forms in which users have them."""

from typing import Any

import numpy as np


def class_numbers(labels: Any) -> np.ndarray:
    """Returns the class of each example, integers `(n,)`.

    Args:
        labels: Whole numbers of any type or booleans, `(n,)` or one column `(n, 1)`, or one-hot
            `(n, classes)`.

    Raises:
        ValueError: If they are neither.

    Example:

    >>> from dann.data.labels import class_numbers
    >>> class_numbers([[0, 1], [1, 0]]).tolist(), class_numbers([[2.0], [0.0]]).tolist()
    ([1, 0], [2, 0])
    """
    found = np.asarray(labels)
    if found.ndim == 2 and found.shape[1] > 1 and np.isin(found, (0, 1)).all():
        found = found.argmax(axis=1)
    whole = found.dtype.kind in "biuf" and np.array_equal(found, np.round(found))
    if found.size != len(found) or not whole:
        raise ValueError(
            "The labels must be the number of a class for each example, or one-hot; "
            "`numpy.unique(labels, return_inverse=True)` numbers strings, and of maps only what a "
            f"model pools is compared. Received: {found.dtype} of shape {found.shape}"
        )
    return found.reshape(-1).astype("int64", copy=False)
