"""Pairs of batches of two domains."""

from typing import Any

import numpy as np

from dann.checks import check_integer
from dann.data.examples import Examples, check_matching_inputs, is_dataset, split_columns
from dann.data.pairs import IndexedDomain, Pairs, check_indexed
from dann.data.sampling import Sampler, groups_to_balance
from dann.data.streams import Stream

BATCH_SIZE = 64  # examples per domain, unless the source is smaller


def pair(
    source: Any,
    target: Any,
    batch_size: int | None = None,
    *,
    target_labeled: Any = None,
    source_domain: Any = None,
    balanced: bool = False,
    shuffle: bool = True,
    repeat: bool = False,
    seed: int | None = None,
    process_id: int = 0,
    num_processes: int = 1,
) -> Pairs:
    """Pairs a labeled source with an unlabeled target, in batches of equal size.

    Inputs are an array, or a dict or list of arrays for a network with several inputs. Lists of
    numbers, pandas data frames and tensors are converted to arrays. An array can also be any object
    with `len`, `shape` and a NumPy `dtype` that returns rows for an array of indices, such as a
    memory map; each batch then reads only its own rows.

    Domains may differ in length or size, such as windows of 30 and of 20 steps. The method then
    needs `joint_forward=False`, and a network for any length without batch normalization.

    A domain can also be a dataset of batches `(inputs, labels)`: a `tf.data.Dataset`, a torch
    `DataLoader`, a `keras.utils.PyDataset`, a generator, or any other iterable. Its examples are
    regrouped into batches of `batch_size`, in their original order. Training on a dataset cannot
    start at a given step, and processes cannot share it. Convert a dataset of single examples with
    `dataset.batch(64)` or `numpy.stack(list(dataset))`, and a sparse matrix with `.toarray()`.

    The number of batches per epoch is `len(source) // batch_size`. For a dataset, the number of
    examples is estimated as its length times the size of its first batch; without a length, the
    pairs repeat endlessly. Examples that do not fill a batch come first in the next epoch. A
    smaller target repeats within an epoch; a larger target continues with new examples in the next
    epoch. With models of other packages, use endless pairs, because their `fit` would read the same
    batches in every epoch. With `steps_per_execution` above 1, Keras rounds the number of batches
    per epoch up to a multiple of `steps_per_execution`.

    Args:
        source: `(inputs, labels)`; or `(inputs, labels, weights)` with one weight for the label
            loss per example, or per label of maps `(n, ...)`; or a dataset.
        target: Inputs, or a dataset. Only the inputs of a tuple such as `(inputs, labels)` are
            used.
        batch_size: Number of examples of *each* domain per batch. Defaults to `None`: 64, or all
            examples of a smaller source.
        target_labeled: Target examples whose labels training may use (semi-supervised), in the
            form of the source, with weights if the source has weights. Each batch then also
            contains `batch_size` of these examples, which repeat. Needs a single process. Defaults
            to `None`.
        source_domain: The domain of each source example, integers `(n,)` from 0, if the source
            consists of several domains. Batches then contain equal parts of each domain, and
            smaller domains repeat. Needs arrays. Defaults to `None`.
        balanced: Whether batches contain equal parts of each class of the source; smaller classes
            then repeat. Needs arrays. Defaults to `False`.
        shuffle: Whether to draw examples in a random order that changes with each pass. Defaults
            to `True`.
        repeat: Whether to repeat without end, for `fit(steps_per_epoch=...)`. Defaults to `False`.
        seed: Seed of the order, at least 0. Defaults to `None`: drawn from NumPy's global
            generator, which `keras.utils.set_random_seed` seeds.
        process_id: Number of this process, from 0. Defaults to `0`.
        num_processes: Number of processes that train together, at most `batch_size`. Each process
            reads its shard of every batch; the shards of all processes in order form the batch of a
            single process. Needs arrays if above 1. Defaults to `1`.

    Returns:
        A `keras.utils.PyDataset` of NumPy batches `({"source": inputs, "target": inputs},
        source_labels)`, followed by weights `(batch_size,)` if the source has weights. With
        `target_labeled` the inputs have a third entry of that name, whose labels follow the
        source's labels, `(2 * batch_size,)` in total. With `source_domain` the inputs have an entry
        of that name, int32 `(batch_size,)`.

    Raises:
        TypeError: If a number is not an integer.
        ValueError: If a domain is empty; if the source does not fill a batch; if inputs of the
            domains differ in number of axes, last axis, type or data frame columns; if numbers are
            NaN or infinite; if there is not one label per example; if weights are negative or of
            another shape; or if an argument needs arrays and a domain is a dataset. `fit` checks
            the range of labels.

    Example:

    >>> import numpy as np
    >>> from dann.data import pair
    >>> source = np.zeros((8, 4)), np.arange(8) % 2
    >>> pairs = pair(source, np.ones((5, 4)), batch_size=4)
    >>> inputs, labels = pairs[0]
    >>> inputs["source"].shape, inputs["target"].shape, labels.shape, len(pairs)
    ((4, 4), (4, 4), (4,), 2)
    """
    domains = {"source": _read(source, "source"), "target": _read(target, "target")}
    if target_labeled is not None:
        domains["target_labeled"] = _read(target_labeled, "labeled target")
        check_integer("num_processes", num_processes, 1, 1, hint="with a labeled target")
    source_spec = domains["source"].input_spec(ignore_spatial=True)
    for name, domain in domains.items():
        check_matching_inputs(source_spec, domain.input_spec(ignore_spatial=True), name)
    count = domains["source"].count  # `None` for a dataset of unknown length
    if batch_size is None:
        batch_size = min(BATCH_SIZE, count or BATCH_SIZE)
    hint = "because the source must fill one batch (trainer.batch_size)"
    check_integer("batch_size", batch_size, 1, count or 2**31, hint=hint)
    check_integer("num_processes", num_processes, 1, batch_size)
    check_integer("process_id", process_id, 0, num_processes - 1)
    if seed is None:
        seed = int(np.random.randint(2**31))
    check_integer("seed", seed, 0)
    groups = _group_source(domains["source"], source_domain, balanced)
    ordered = {}
    for number, (name, domain) in enumerate(domains.items()):
        if isinstance(domain, Examples):
            members = groups if name == "source" and groups is not None else domain.count
            domain = IndexedDomain(domain, Sampler(members, shuffle, seed, number))
        ordered[name] = domain
    num_batches = None if repeat or count is None else count // batch_size
    pairs = Pairs(ordered, batch_size, num_batches, (process_id, num_processes))
    pairs.columns = domains["source"].column_names
    return pairs


def _read(data, domain):
    """Returns a domain that reads arrays by index or a dataset in order; drops target labels."""
    with_labels = domain != "target"
    if is_dataset(data):
        return Stream(data, with_labels, domain)
    return Examples(split_columns(data, with_labels, domain), domain)


def _group_source(source, source_domain, balanced):
    """Returns the group of each source example, or `None` without groups."""
    if source_domain is None and not balanced:
        return None
    check_indexed({"source": source}, "balanced=True" if balanced else "source_domain")
    if source_domain is not None:
        domains = np.asarray(source_domain)
        is_number = domains.dtype.kind in "biu"
        invalid = np.unique(domains[domains < 0] if is_number else domains).tolist()
        if invalid or not is_number:
            raise ValueError(
                "Expected `source_domain` to contain integers from 0. Received: "
                f"{domains.dtype} with the values {', '.join(map(str, invalid[:5]))}. "
                "`np.unique(domains, return_inverse=True)[1]` numbers domains from 0"
            )
        source.columns["domain"] = domains.astype(np.int32)
    return groups_to_balance(source.columns["labels"], source_domain, balanced)
