"""All examples of a domain at once, for what looks at them together, such as a score."""

from typing import Any

import keras
import numpy as np

from dann.data.domains import is_dataset, source_of, target_of
from dann.data.labels import class_numbers
from dann.data.streams import columns_of, concatenated


def all_labelled(given: Any, domain: str = "source") -> tuple[Any, np.ndarray]:
    """Returns the inputs and the classes `(n,)` of labelled examples; weights are left out.

    Args:
        given: What `dann.data.pair` takes for a source. A dataset is read once, into memory.
        domain: What messages call it.

    Raises:
        ValueError: If it has no examples or no labels, or the labels are not classes.
    """
    columns = _read(given, True, domain)
    if columns is None:
        columns = source_of(given, domain, None).columns
    return columns["inputs"], class_numbers(columns["labels"], f"labels of the {domain}")


def all_inputs(given: Any, specs: Any = None) -> Any:
    """Returns the inputs of a target, without labels that a dataset gives with them.

    Args:
        given: What `dann.data.pair` takes for a target. A dataset is read once, into memory.
        specs: Symbolic tensors like the inputs, which tell two inputs from inputs and labels.
    """
    columns = _read(given, False, "target")
    if columns is None:
        columns = target_of(given, specs).columns
    return columns["inputs"]


def first_inputs(given: Any, specs: Any, most: int) -> Any:
    """Returns the first inputs of a dataset, at most so many; see `all_inputs`."""
    if is_dataset(given):
        parts, count = [], 0
        for batch in given:
            parts.append(columns_of(batch, False, "target")["inputs"])
            count += len(keras.tree.flatten(parts[-1])[0])
            if count >= most:
                break
        whole = concatenated(parts, "target")
        return keras.tree.map_structure(lambda leaf: leaf[:most], whole)
    examples = target_of(given, specs)
    return examples.rows(np.arange(min(examples.count, most)))["inputs"]


def _read(given, with_labels, domain):
    """The columns of a dataset, or `None` for arrays."""
    if not is_dataset(given):
        return None
    parts = [columns_of(batch, with_labels, domain) for batch in given]
    if not parts:
        raise ValueError(f"The {domain} holds no examples. Received: an empty dataset")
    return concatenated(parts, domain)
