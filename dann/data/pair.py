"""Makes the pairs of batches of two domains from what a user has."""

from typing import Any

import numpy as np

from dann.checks import check_integer
from dann.data.examples import Examples, check_matching_inputs, is_dataset, split_columns
from dann.data.pairs import IndexedDomain, Pairs, check_indexed
from dann.data.sampling import Sampler, groups_to_balance
from dann.data.streams import Stream

_BATCH_SIZE = 64


def pair(
    source: Any,
    target: Any,
    batch_size: int | None = None,
    *,
    target_labelled: Any = None,
    source_domain: Any = None,
    balanced: bool = False,
    shuffle: bool = True,
    repeat: bool = False,
    seed: int | None = None,
    process_id: int = 0,
    num_processes: int = 1,
) -> Pairs:
    """Pairs a labelled source with an unlabelled target, in batches of equal size.

    Inputs are an array, or a dict or list of arrays for a network with several inputs. Lists of
    numbers, pandas frames and tensors are made arrays. An array may also be anything with `len`,
    `shape` and a NumPy `dtype` that gives rows for an array of indices, such as a memory map or
    `dann.data.ImageFiles`. Then each batch reads only its rows.

    Domains may differ in length or size, such as windows of 30 and of 20 steps, for a method with
    `joint_forward=False` and a network that takes both.

    A domain may also be a dataset of batches `(inputs, labels)`: a `tf.data.Dataset`, a torch
    `DataLoader`, a `keras.utils.PyDataset`, a generator, anything that is iterable. Its batches are
    cut again, in their own order, and such a training cannot start at a step or be shared by
    processes. A dataset of single examples is made one of batches by `dataset.batch(64)`, or an
    array by `numpy.stack(list(dataset))`; a sparse matrix is made an array by `.toarray()`.

    An epoch is as many batches as the source fills, or `len(dataset)` times the size of its first
    batch; a dataset without a length makes pairs without end. The examples that are left over come
    first in the next epoch. A smaller target is recycled; a larger one continues with other
    examples in the next epoch. To a model that is not of this package give endless pairs, because
    its `fit` reads the same batches in every epoch; and with `steps_per_execution` above 1, Keras
    rounds the batches of an epoch up to a multiple of it.

    Args:
        source: `(inputs, labels)`, or `(inputs, labels, weights)` with a weight for each example's
            label loss, or for each label of maps `(n, ...)`, or a dataset.
        target: Inputs, or a dataset. Of a tuple, `(inputs, labels)`, all but the inputs is dropped
            here.
        batch_size: Examples of *each* domain in a batch. Defaults to `None`: 64, or all examples of
            the source if they are fewer.
        target_labelled: Target examples whose labels training may use, given like the source, for
            semi-supervised training, with weights if the source has some. Each batch then also
            holds `batch_size` of them, recycled. Needs a single process. Defaults to `None`.
        source_domain: The number of each example's domain, integers `(n,)` from 0, if the source is
            several domains. Batches then draw the domains in equal parts and recycle the smaller
            ones. Needs arrays. Defaults to `None`.
        balanced: Whether batches draw the source's classes in equal parts and recycle the smaller
            ones. Needs arrays. Defaults to `False`.
        shuffle: Whether to draw in a random order, another one each pass. Defaults to `True`.
        repeat: Whether to repeat without end, for `fit(steps_per_epoch=...)`. Defaults to `False`.
        seed: Seed of the order, at least 0. Defaults to `None`: drawn from NumPy's global one,
            which `keras.utils.set_random_seed` sets.
        process_id: Which of the processes this is, from 0.
        num_processes: Number of processes that train together, at most `batch_size`. Each takes its
            part of every batch, of `batch_size` in all; one after the other, the parts of a domain
            are its part of one process's batch. Needs arrays if above 1. Defaults to `1`.

    Returns:
        A `keras.utils.PyDataset` of `({"source": inputs, "target": inputs}, source_labels)` in
        NumPy, followed by weights `(batch_size,)` if they are given. With `target_labelled` the
        inputs have a third entry of that name, and its labels follow the source's:
        `(2 * batch_size,)` in all. With `source_domain` there is an entry of that name, int32
        `(batch_size,)`.

    Raises:
        TypeError: If a number is not an integer.
        ValueError: If a domain is empty, smaller than a batch (the source), or has another number
            of axes, last axis, type or columns of a frame than the other; if numbers are NaN or
            infinite; if labels are missing or not one for each input; if weights are negative or of
            another shape; if what needs arrays is given a dataset. `fit` looks at the range of the
            labels.

    Example:

    >>> import numpy as np
    >>> from dann.data import pair
    >>> source = np.zeros((8, 4)), np.arange(8) % 2
    >>> pairs = pair(source, np.ones((5, 4)), batch_size=4)
    >>> inputs, labels = pairs[0]
    >>> inputs["source"].shape, inputs["target"].shape, labels.shape, len(pairs)
    ((4, 4), (4, 4), (4,), 2)
    """
    found = {"source": _read(source, "source"), "target": _read(target, "target")}
    if target_labelled is not None:
        found["target_labelled"] = _read(target_labelled, "labelled target")
        check_integer("num_processes", num_processes, 1, 1, why="with a labelled target")
    for name, domain in found.items():
        check_matching_inputs(
            found["source"].input_spec(ignore_spatial=True),
            domain.input_spec(ignore_spatial=True),
            name,
        )
    count = found["source"].count
    if batch_size is None:
        batch_size = min(_BATCH_SIZE, count or _BATCH_SIZE)
    check_integer("batch_size", batch_size, 1, count or 2**31, why="the source must fill one")
    check_integer("num_processes", num_processes, 1, batch_size)
    check_integer("process_id", process_id, 0, num_processes - 1)
    if seed is None:
        seed = int(np.random.randint(2**31))
    check_integer("seed", seed, 0)
    groups = _groups(found["source"], source_domain, balanced)
    domains = {}
    for number, (name, domain) in enumerate(found.items()):
        if isinstance(domain, Examples):
            drawn_by = groups if name == "source" and groups is not None else domain.count
            domain = IndexedDomain(domain, Sampler(drawn_by, shuffle, seed, number))
        domains[name] = domain
    num_batches = None if repeat or count is None else count // batch_size
    return Pairs(domains, batch_size, num_batches, (process_id, num_processes))


def _read(given, domain):
    """What reads a domain by index or, of a dataset, in order; labels of the target are dropped."""
    with_labels = domain != "target"
    if is_dataset(given):
        return Stream(given, with_labels, domain)
    return Examples(split_columns(given, with_labels, domain), domain)


def _groups(source, source_domain, balanced):
    """The group of each source example, or `None` if all are drawn alike."""
    if source_domain is None and not balanced:
        return None
    check_indexed({"source": source}, "balanced` or `source_domain", True)
    groups = groups_to_balance(source.columns["labels"], source_domain, balanced)
    if source_domain is not None:
        domains = np.asarray(source_domain)
        source.columns["domain"] = domains.astype(np.int32, casting="same_kind")
    return groups
