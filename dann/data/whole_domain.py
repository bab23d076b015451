"""The first examples of a domain, for what looks at them together, such as a diagnosis."""

from typing import Any

import keras
import numpy as np

from dann.data.domains import is_dataset, target_of
from dann.data.streams import columns_of, concatenated


def first_inputs(given: Any, specs: Any, most: int) -> Any:
    """Returns the first inputs of a target, at most so many, without labels that come with them.

    Args:
        given: What `dann.data.pair` takes for a target.
        specs: Symbolic tensors like the inputs, which tell two inputs from inputs and labels.
        most: The most examples.
    """
    if not is_dataset(given):
        examples: Any = target_of(given, specs)
        return examples.rows(np.arange(min(examples.count, most)))["inputs"]
    parts, count = [], 0
    for batch in given:
        parts.append(columns_of(batch, False, "target")["inputs"])
        count += len(keras.tree.flatten(parts[-1])[0])
        if count >= most:
            break
    return keras.tree.map_structure(lambda leaf: leaf[:most], concatenated(parts, "target"))
