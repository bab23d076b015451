"""The batch that a diagnostic measures."""

from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import is_pair
from dann.data.pairs import Pairs

MOST = 256  # examples of each domain


def as_batch(model: Any, data: Any) -> Any:
    """Returns data as one batch of arrays: `(inputs, labels)`, or inputs alone.

    Args:
        model: The model that takes them.
        data: A batch `({"source": xs, "target": xt}, ys)`; or pairs of `dann.data.pair`, of which
            it takes the first 256 examples of each domain. Weights are left out. For a model from
            elsewhere than `dann.adaptation` its inputs, alone or with labels.

    Raises:
        ValueError: If it holds no pair of domains with labels of the source.
    """
    if isinstance(data, Pairs):
        data = data.take(MOST)
    if not isinstance(model, AdversarialModel):
        return data[:2] if isinstance(data, tuple) else data
    if not isinstance(data, tuple | list) or len(data) not in (2, 3) or not is_pair(data[0]):
        raise ValueError(
            "A diagnostic needs both domains: `({'source': inputs, 'target': inputs}, labels)`, or "
            f"the pairs that `dann.data.pair` makes. Received: {type(data).__name__}"
        )
    arrays = keras.tree.map_structure(keras.ops.convert_to_numpy, tuple(data[:2]))
    return arrays[0], np.asarray(arrays[1])
