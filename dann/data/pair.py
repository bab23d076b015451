"""Makes the pairs of batches of two domains from what a user has."""

import math
from typing import Any

import numpy as np

from dann.checks import check_integer
from dann.data.domain_inputs import check_alike, check_columns, source_of, target_of
from dann.data.examples import Examples
from dann.data.pairs import Drawn, Pairs, check_columns_alike
from dann.data.sampling import DrawOrder, groups_to_balance
from dann.data.streams import Stream

_BATCH_SIZE = 64


def pair(
    source: Any,
    target: Any,
    batch_size: int | None = None,
    *,
    target_labelled: Any = None,
    source_domain: Any = None,
    num_classes: int | None = None,
    balanced: bool = False,
    shuffle: bool = True,
    repeat: bool = False,
    seed: int | None = None,
    batched: bool | None = None,
    process_id: int = 0,
    num_processes: int = 1,
) -> Pairs:
    """Pairs a labelled source with an unlabelled target, in batches of equal size.

    Inputs are an array, or a dict, tuple or list of arrays for a network with several inputs. Lists
    of numbers, pandas frames and tensors are made arrays. An array may also be a sparse matrix of
    SciPy, or anything with `shape`, a NumPy `dtype` and `len` that gives rows for an array of
    indices, such as a memory map or `dann.data.ImageFiles`. Then each batch reads only its rows, a
    sparse matrix's as a dense array.

    A domain may also be a dataset of single examples `(input, label)` or of batches: a
    `tf.data.Dataset`, `keras.utils.PyDataset`, torch `DataLoader` or `Dataset`, a grain dataset, an
    iterable, or a function without arguments that returns an iterator. Batches are cut again. Those
    that are read by index, as torch's `Dataset` with a length, are shuffled as arrays are, a
    `tf.data.Dataset` of examples within a buffer of 10,000, and all others keep their own order.

    An epoch is as many batches as the source fills. The examples that are left over come first in
    the next epoch. A smaller target is recycled; a larger one continues with other examples in the
    next epoch.

    Args:
        source: `(inputs, labels)`, or `(inputs, labels, weights)` with a weight for each example's
            label loss, or for each label of maps `(n, ...)`, or a dataset.
        target: Inputs, or a dataset. Labels that come with them, `(inputs, labels)`, are dropped
            here.
        batch_size: Examples of *each* domain in a batch. Defaults to `None`: 64, or all examples of
            the source if they are fewer.
        target_labelled: Target examples whose labels training may use, given like the source, for
            semi-supervised training. Each batch then also holds `batch_size` of them, recycled.
            Defaults to `None`.
        source_domain: The number of each example's domain, integers `(n,)` from 0, if the source is
            several domains. Batches then draw the domains in equal parts and recycle the smaller
            ones. Needs arrays. Defaults to `None`.
        num_classes: If given, labels of an array outside of `0 <= label < num_classes` are an
            error, and so are one-hot or soft labels without `num_classes` columns.
        balanced: Whether batches draw the source's classes in equal parts and recycle the smaller
            ones. Needs arrays. Defaults to `False`.
        shuffle: Whether to draw in a random order, another one each pass. Defaults to `True`.
        repeat: Whether to repeat without end, for `fit(steps_per_epoch=...)`. Defaults to `False`.
        seed: Seed of the order, at least 0. Defaults to `None`: drawn from NumPy's global one,
            which `keras.utils.set_random_seed` sets.
        batched: Whether datasets give batches, not single examples. Defaults to `None`: a
            `tf.data.Dataset` whose first axes have any length gives batches, and so does one whose
            inputs and labels have equal first axes; label maps must be told.
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
        ValueError: If a domain is empty, smaller than a batch (the source), or has other shapes or
            types than the other; if labels are missing, strings, not one for each input, or out of
            range; if what needs arrays is given a dataset; if a dataset of label maps does not tell
            whether it gives batches.

    Example:

    >>> import numpy as np
    >>> from dann.data import pair
    >>> source = np.zeros((8, 4)), np.arange(8) % 2
    >>> pairs = pair(source, np.ones((5, 4)), batch_size=4)
    >>> inputs, labels = pairs[0]
    >>> inputs["source"].shape, inputs["target"].shape, labels.shape, len(pairs)
    ((4, 4), (4, 4), (4,), 2)
    """
    if batch_size is not None:
        check_integer("batch_size", batch_size, 1)
    check_integer("num_processes", num_processes, 1)
    check_integer("process_id", process_id, 0, num_processes - 1)
    if seed is None:
        seed = int(np.random.randint(2**31))
    check_integer("seed", seed, 0)
    reading = batch_size or _BATCH_SIZE, seed if shuffle else None
    check_columns(source, target, "target")
    check_columns(source, target_labelled, "labelled target")
    found = {"source": source_of(source, "source", *reading, num_classes, batched)}
    found["target"] = target_of(target, found["source"].form, *reading, batched)
    check_alike(found["source"].form, found["target"].form, "target")
    if target_labelled is not None:
        labelled = source_of(target_labelled, "labelled target", *reading, num_classes, batched)
        check_alike(found["source"].form, labelled.form, "labelled target")
        _check_labels_alike(found["source"], labelled)
        found["target_labelled"] = labelled
    size = _fitting_batch_size(found["source"], batch_size)
    check_integer("num_processes", num_processes, 1, size)
    groups = _group(found["source"], source_domain, balanced)
    domains = {}
    for number, (name, domain) in enumerate(found.items()):
        if not isinstance(domain, Stream):
            drawn_by = groups if name == "source" and groups is not None else domain.count
            domain = Drawn(domain, DrawOrder(drawn_by, shuffle, seed, number))
        domains[name] = domain
    count = math.inf if repeat else found["source"].count
    num_batches = None if count == math.inf else int(count // size)
    return Pairs(domains, size, num_batches, process_id, num_processes)


def _check_labels_alike(source, labelled):
    """Raises `ValueError` if labels or weights of two domains cannot follow each other."""
    if not (isinstance(source, Examples) and isinstance(labelled, Examples)):
        return
    mine, its = (part.columns["labels"].dtype for part in (source, labelled))
    if not np.can_cast(its, mine, "same_kind"):  # they would lose their fractions
        raise ValueError(
            "Labels of the labelled target must be of the source's type. "
            f"Received: {its} for a source with {mine}"
        )
    check_columns_alike([source.columns, labelled.columns])


def _fitting_batch_size(source, batch_size):
    least = batch_size or _BATCH_SIZE
    have = int(
        source.count_up_to(least) if isinstance(source, Stream) else min(source.count, least)
    )
    if batch_size and have < batch_size:
        raise ValueError(
            f"The source must fill a batch of {batch_size}; use a smaller `batch_size`. "
            f"Received: {have} examples"
        )
    return have


def _group(source, source_domain, balanced):
    """The group of each source example, or `None` if all are drawn alike."""
    if source_domain is None and not balanced:
        return None
    if not isinstance(source, Examples):
        raise ValueError(
            "`balanced=True` and `source_domain` need the source as arrays, to know its labels "
            "beforehand. Received: a dataset"
        )
    groups = groups_to_balance(source.columns["labels"], source_domain, balanced)
    if source_domain is not None:
        source.columns["domain"] = np.asarray(source_domain, np.int32)
    return groups
