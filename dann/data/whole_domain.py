"""All examples of a domain at once, for what looks at them together, such as a score."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dann.data.domain_inputs import Domain, source_of, target_of
from dann.data.examples import Examples, Items, form_of
from dann.data.labels import class_numbers
from dann.data.streams import Stream

_READ_BY = 256  # examples at a time


def all_labelled(given: Any, domain: str = "source") -> tuple[Any, np.ndarray]:
    """Returns the inputs and the classes `(n,)` of labelled examples; weights are left out.

    Args:
        given: What `dann.data.pair` takes for a source. A dataset is read once, into memory.
        domain: What messages call it.

    Raises:
        ValueError: If it has no examples, no labels or no end, or the labels are not classes.
    """
    columns = _all(given, source_of(given, domain, _READ_BY, None, None), domain)
    return columns["inputs"], class_numbers(columns["labels"], f"labels of the {domain}")


def all_inputs(given: Any, specs: Any = None) -> Any:
    """Returns the inputs of a target, without labels that a dataset gives with them.

    Args:
        given: What `dann.data.pair` takes for a target. A dataset is read once, into memory.
        specs: Symbolic tensors like the inputs, which tell batches from examples; `None` if they
            are not known.

    Raises:
        ValueError: If it has no examples or no end, or is not of the structure of `specs`.
    """
    form = None if specs is None else form_of(specs)
    return _all(given, target_of(given, form, _READ_BY, None), "target")["inputs"]


def first_inputs(given: Any, specs: Any, most: int) -> Any:
    """Returns the first inputs of a dataset, at most so many; see `all_inputs`."""
    examples = target_of(given, None if specs is None else form_of(specs), _READ_BY, None)
    if isinstance(examples, Stream):
        return examples.first(most)["inputs"]
    return examples.rows(np.arange(min(examples.count, most)))["inputs"]


def _all(given: Any, examples: Domain, domain: str) -> Any:
    """The columns of all examples. Arrays stay as they are, perhaps in files."""
    if isinstance(examples, Examples):
        return examples.columns
    if isinstance(examples, Items):
        return examples.rows(np.arange(examples.count))
    if examples.is_endless and not isinstance(given, Iterator):
        raise ValueError(
            f"The {domain} must have an end, because all of it is read: cut it, as "
            "`dataset.take(n)` does. Received: an endless dataset"
        )
    return examples.first()
