"""Makes a pair of domains from the parts that a reader has read, and splits them."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from dann.checks import check_number
from dann.data.domain_pair import UNKNOWN, DomainPair
from dann.data.lazy_arrays import Rows
from dann.data.nuisances import Encoded, Nuisances
from dann.registry import Registry

READERS: Registry[Callable[..., DomainPair]] = Registry()


def pair_of_parts(
    inputs: Mapping[str, Any],
    labels: Mapping[str, Any],
    *,
    source_name: str,
    target_name: str,
    test_share: float = 0.2,
    seed: int = 0,
    class_names: Sequence[str] | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    groups: Mapping[str, Any] | None = None,
    nuisances: Encoded = ({}, {}),
) -> DomainPair:
    """Numbers the classes, draws the test sets that are missing and makes the pair.

    Args:
        inputs: Array-likes of `"source"` and `"target"`, and perhaps of `"source test"`,
            `"target test"` and `"target new"`, which takes the place of the target's test set.
            Rows of what is no array in memory are read on demand.
        labels: Labels `(n,)` by the same names: integers, or strings that name the classes. Of the
            target they may be absent or `None`; an unknown one is -1, or an empty string.
        source_name: Name of the source.
        target_name: Name of the target.
        test_share: See `dann.data.arrays`, as for the other arguments.
        names: Names of a part's examples, such as files. Defaults to `None`: the numbers of rows.
        groups: The group of each example of `"source"` and `"target"`, `(n,)`; see
            `dann.data.arrays`. Defaults to `None`: each example is drawn alone.
        nuisances: Those of `"source"`, and of `"source test"` if there is one, as
            `dann.data.nuisances.encoded` returns them. There is no target then; the source without
            its labels takes its place. Defaults to none.

    Raises:
        ValueError: If labels do not fit; else as `DomainPair` and `hold_out`.
    """
    inputs = dict(inputs)
    labelled = {part: found for part, found in labels.items() if found is not None}
    numbers = {part: _as_labels(part, one, len(inputs[part])) for part, one in labelled.items()}
    if not {part for part in inputs if part.startswith("source")} <= numbers.keys():
        raise ValueError("The source must be `(inputs, labels)`. Received: no labels")
    numbers, class_names = _numbered(numbers, class_names)
    most = max(numbers[part].max(initial=0) for part in numbers if part.startswith("source"))
    for part in inputs:
        numbers.setdefault(part, np.full(len(inputs[part]), UNKNOWN))
    rows_of = {part: np.arange(len(inputs[part])) for part in inputs}
    rows_of |= {part: np.array(its) for part, its in (names or {}).items()}
    group_of = _checked_groups(groups or {}, numbers)
    kinds, values = nuisances
    trained, tested = {}, {}
    for name in [name for name in ("source", "target") if name in inputs]:
        if f"{name} test" not in inputs:
            its = group_of.get(name)
            train, test = _drawn(numbers[name], name == "source", test_share, seed, its)
            if its is not None:
                trained[name], tested[name] = its[train], its[test]
            for part, rows in ((f"{name} test", test), (name, train)):
                inputs[part], numbers[part] = _rows(inputs[name], rows), numbers[name][rows]
                rows_of[part] = rows_of[name][rows]
                if name in values:
                    values[part] = {key: its[rows] for key, its in values[name].items()}
    _check_groups_apart(trained, tested)
    for part in ("", " test") if kinds else ():
        for held in (inputs, rows_of):
            held[f"target{part}"] = held[f"source{part}"]
        numbers[f"target{part}"] = np.full(len(numbers[f"source{part}"]), UNKNOWN)
    its: Any = values.get("source"), values.get("source test"), tested.get("source")
    test = "target new" if "target new" in inputs else "target test"
    return DomainPair(
        source=source_name,
        target=target_name,
        source_train=(inputs["source"], numbers["source"]),
        source_test=(inputs["source test"], numbers["source test"]),
        target_train=inputs["target"],
        target_test=(inputs[test], _if_any(numbers[test])),
        num_classes=len(class_names) if class_names else int(most) + 1,
        class_names=class_names,
        target_train_labels=_if_any(numbers["target"]),
        target_names=(rows_of["target"], rows_of[test]),
        nuisances=Nuisances(kinds, *its) if kinds else None,
    )


def _as_labels(part, labels, count):
    """Labels as integers or strings `(n,)`."""
    labels = np.asarray(labels)
    texts = labels.dtype.kind in "UT" or all(isinstance(label, str) for label in labels.flat)
    if labels.shape != (count,) or not (texts or labels.dtype.kind in "biu"):
        raise ValueError(
            f"The {part} must have one label for each input, an integer or a string. "
            f"Received: {count} inputs and labels {labels.dtype} {labels.shape}"
        )
    return labels.astype(str if texts else np.int64)


def _numbered(labels, class_names):
    """Labels as integers, and the names of the classes: the given, or the source's in order."""
    texts = [part for part, found in labels.items() if found.dtype.kind == "U"]
    if 0 < len(texts) < len(labels):
        raise ValueError(
            f"Labels must be strings in every part or in none. Received: strings in {texts} alone"
        )
    if class_names is None and texts:
        # The target's labels do not decide what the classes are.
        found = {name for part in texts if "source" in part for name in labels[part].tolist()}
        class_names = sorted(found - {""})
    names = None if class_names is None else tuple(class_names)
    numbers = {"": UNKNOWN, **{name: number for number, name in enumerate(names or ())}}
    for part in texts:
        strange = sorted(set(labels[part].tolist()) - numbers.keys())
        if strange:
            raise ValueError(f"Labels of the {part} must be among {names}. Received: {strange}")
        labels[part] = np.array([numbers[label] for label in labels[part].tolist()], np.int64)
    return labels, names


def _checked_groups(groups, labels):
    found = {part: np.asarray(its) for part, its in groups.items() if its is not None}
    for part, its in found.items():
        if its.shape != labels[part].shape:
            raise ValueError(
                f"Groups of the {part} must be one value for each of its examples. "
                f"Received: shape {its.shape} for {len(labels[part])} examples"
            )
    return found


def _check_groups_apart(trained, tested):
    """Domains with the same groups test on the same ones; others must not share any."""
    for (name, train), (other, test) in itertools.product(trained.items(), tested.items()):
        shared = sorted(set(train.tolist()) & set(test.tolist()))
        if shared:
            raise ValueError(
                "No group may be trained on and tested on; groups of both domains that are not the "
                "same thing need different names. Received: groups of the "
                f"{name} to train on and of the {other} to test on {shared[:5]}"
            )


def _drawn(labels, stratified, share, seed, groups=None):
    """Indices to train and to test on; of labelled and unlabelled examples, labelled to test on."""
    known = np.flatnonzero(labels != UNKNOWN)
    known = known if len(known) else np.arange(len(labels))
    if groups is not None:
        test = known[hold_out_groups(groups[known], share, seed)]
        train = np.flatnonzero(~np.isin(groups, groups[test]))
        lacking = np.setdiff1d(labels[test], labels[train]) if stratified else ()
        if len(lacking):
            raise ValueError(
                "Each class of the source needs a group to train on, as another `seed` or "
                f"`test_share` may leave. Received: none for the classes {lacking}"
            )
        return train, test
    test = known[hold_out(len(known), share, seed, labels[known] if stratified else None)[1]]
    return np.setdiff1d(np.arange(len(labels)), test), test


def _rows(values, rows):
    return values[rows] if type(values) is np.ndarray else Rows(values, rows)


def _if_any(labels):
    """The labels, or `None` if all are unknown."""
    return labels if (labels != UNKNOWN).any() else None


def hold_out(
    count: int, test_share: float, seed: int = 0, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Splits `count` examples at random into those to train on and those to test on.

    Args:
        count: Number of examples, at least 2.
        test_share: Share of the examples to test on, in (0, 1); each part gets at least one.
        seed: Seed of the draw.
        labels: Labels `(count,)` of a source. Both parts then hold the classes in the same
            proportions; where there are too few examples for that, every class is still trained on.
            Never pass the labels of a target: they must not reach training, not even so. Defaults
            to `None`.

    Returns:
        Two sorted arrays of indices without a common element.

    Raises:
        ValueError: If `test_share` is out of range or there are fewer than 2 examples.
    """
    check_number("test_share", test_share, 0, 1, above=True, below=True)
    if count < 2:
        raise ValueError(f"Holding out test examples takes at least 2. Received: {count}")
    held_out = min(max(round(count * test_share), 1), count - 1)
    draw = functools.partial(train_test_split, test_size=held_out, random_state=seed)
    try:
        train, test = draw(np.arange(count), stratify=labels)
    except ValueError:  # A class is too small to be in both parts; training must not lose it.
        pinned = _one_of_each(labels, seed)
        pool = np.setdiff1d(np.arange(count), pinned)
        if len(pool) == 0:
            raise ValueError(f"A test set takes a class of 2. Received: {count} of 1") from None
        train, test = draw(pool) if len(pool) > held_out else (pool[:0], pool)
        train = np.concatenate([pinned, train])
    return np.sort(train), np.sort(test)


def hold_out_groups(groups: Any, test_share: float, seed: int = 0) -> np.ndarray:
    """Returns the indices `(k,)` of the examples to test on, whole groups of them, sorted.

    Args:
        groups: The group of each example, `(n,)`: numbers or texts, such as persons.
        test_share: Share of the *groups* to test on, in (0, 1), rounded up.
        seed: Seed of the draw. The same groups give the same draw, however many examples they have.

    Raises:
        ValueError: If `test_share` is out of range or no group is left to train on.
    """
    check_number("test_share", test_share, 0, 1, above=True, below=True)
    draw = GroupShuffleSplit(1, test_size=test_share, random_state=seed)
    return next(draw.split(groups, groups=groups))[1]


def _one_of_each(labels, seed):
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(np.flatnonzero(labels == name)) for name in np.unique(labels)])


def check_apart(parts: Mapping[str, Any], overlap: Callable[[Any, Any], bool], what: str) -> None:
    """Raises a `ValueError` if something is tested on and trained on.

    Args:
        parts: What is read, under `"source"`, `"target"` and perhaps `"source test"` and `"target
            test"`. A domain without a test set is also tested on: a part of it is held out.
        overlap: Whether two of them hold a common example.
        what: What they are, for the message.
    """
    tested = [name for name in parts if f"{name} test" not in parts]
    trained = [name for name in parts if not name.endswith("test")]
    for name, other in itertools.product(tested, trained):
        if name != other and overlap(parts[name], parts[other]):
            raise ValueError(
                f"The {name} and the {other} must be different {what}, because nothing may be "
                f"tested on that is trained on. Received: {what} with a common part"
            )
