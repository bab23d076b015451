"""The batch that a diagnostic measures, from what `dann.data.pair` and `fit` take."""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.forward_pass import is_pair
from dann.adaptation.plain_network import input_specs
from dann.data.array_likes import as_array
from dann.data.examples import nested
from dann.data.pair import pair
from dann.data.pairs import Pairs
from dann.data.streams import columns_of, concatenated
from dann.data.whole_domain import first_inputs

MOST = 256  # examples of each domain


def as_batch(model: Any, data: Any) -> Any:
    """Returns data as one batch of arrays or tensors: `(inputs, labels)`, or inputs alone.

    Of a dataset it takes the first 256 examples of each domain, and leaves out weights.

    Args:
        model: The model that takes them.
        data: A batch, alone or with weights; pairs of `dann.data.pair` or a dataset that gives such
            batches; or `{"source": source, "target": target}` as `dann.data.pair` takes them. For a
            model from elsewhere than `dann.adaptation` its inputs, alone, with labels or as a
            dataset.

    Raises:
        ValueError: If it holds no pair of domains, or no labels of the source.
    """
    if not isinstance(model, AdversarialModel):
        return _plain(model, data)
    if isinstance(data, Pairs):
        return data.take(MOST)[:2]
    if is_pair(data):
        return pair(data["source"], data["target"], shuffle=False, seed=0).take(MOST)[:2]
    if isinstance(data, tuple | list):
        if len(data) not in (2, 3) or not is_pair(data[0]):
            raise ValueError(_EXPECTED + f"Received: a {type(data).__name__} of {len(data)}")
        inputs = {name: _arrays(part, name) for name, part in data[0].items()}
        return inputs, _array(data[1], "labels")
    return _joined(data)


_EXPECTED = (
    "A diagnostic needs both domains: `({'source': inputs, 'target': inputs}, labels)`, or the "
    "pairs that `dann.data.pair` makes. "
)


def _plain(model, data):
    with_labels = isinstance(data, tuple) and len(data) in (2, 3)
    inputs = data[0] if with_labels else data
    is_array = hasattr(inputs, "shape") or isinstance(inputs, dict | tuple)
    if not is_array:
        inputs = first_inputs(inputs, input_specs(model), MOST)
    return (inputs, data[1]) if with_labels else inputs


def _joined(data):
    """The first examples of a dataset of pairs; labels of a labelled target follow the source's."""
    parts, labels, others, count = [], [], [], 0
    for item in _items(data):
        if not isinstance(item, tuple | list) or len(item) < 2 or not is_pair(item[0]):
            raise ValueError(_EXPECTED + f"Received: a dataset of {type(item).__name__}")
        columns = columns_of(item, True, "dataset of pairs")
        size = len(keras.tree.flatten(columns["inputs"]["source"])[0])
        parts.append(columns["inputs"])
        labels.append(columns["labels"][:size])
        others.append(columns["labels"][size:])
        count += size
        if count >= MOST:
            break
    if not parts:
        raise ValueError(_EXPECTED + "Received: an empty dataset")
    return concatenated(parts, "dataset of pairs"), np.concatenate([*labels, *others])


def _items(data: Any) -> Any:
    if isinstance(data, keras.utils.PyDataset):
        return (data[number] for number in range(data.num_batches or 1))
    if hasattr(data, "as_numpy_iterator"):
        return data.as_numpy_iterator()
    if callable(data) and not isinstance(data, Iterable | Iterator):
        return data()
    if isinstance(data, Iterable) and not isinstance(data, str) and not hasattr(data, "shape"):
        return iter(data)
    raise ValueError(_EXPECTED + f"Received: {type(data).__name__}")


def _arrays(part, name):
    """Arrays and tensors as they are; lists of rows and frames as arrays."""
    return keras.tree.map_structure(lambda one: _array(one, name), nested(part, name))


def _array(values, name):
    if keras.ops.is_tensor(values):
        return values.detach() if hasattr(values, "detach") else values
    found = as_array(values, name)
    return found if isinstance(found, np.ndarray) else found[np.arange(len(found))]
