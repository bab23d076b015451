"""Makes a pair of domains from the parts that a reader has read, and splits them."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dann.checks import did_you_mean
from dann.data.domain_pair import DomainPair
from dann.data.examples import as_array
from dann.data.nuisances import encode_nuisances
from dann.data.splits import UNKNOWN, hold_out


class Rows:
    """Some rows of an array-like, as an array-like.

    NumPy copies the rows that an array of indices chooses. This class keeps the indices instead, so
    that a memory map or `dann.data.ImageFiles` can be split without being read.

    Args:
        values: Anything with `shape` and `dtype` that gives rows for an array of indices.
        indices: Integers `(n,)`, the rows in the order in which they are wanted.
    """

    def __init__(self, values: Any, indices: np.ndarray):
        self.values = values
        self.indices = np.asarray(indices)
        self.shape = (len(self.indices), *values.shape[1:])
        self.dtype = values.dtype

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, chosen: Any) -> np.ndarray:
        return self.values[self.indices[chosen]]


def build_pair(
    given: Mapping[str, Mapping[str, Any]],
    *,
    source_name: str,
    target_name: str,
    test_share: float = 0.2,
    seed: int = 0,
    class_names: Sequence[str] | None = None,
    kinds: Mapping[str, Any] | None = None,
) -> DomainPair:
    """Numbers the classes, draws the test sets that are missing and makes the pair.

    Args:
        given: The parts `"source"` and `"target"`, and perhaps `"source test"`, `"target test"` and
            `"target new"`, which takes the place of the target's test set. A part is a dict of:

            - `"inputs"`: An array-like. Rows of what is no array in memory are read on demand.
            - `"labels"`: `(n,)`, integers, or strings that name the classes. Of the target they may
              be absent or `None`; an unknown one is -1, or an empty string.
            - `"groups"`, of the source and the target: The group of each example, `(n,)`; see
              `dann.data.arrays`. Without them each example is drawn alone.
            - `"nuisance <name>"`, of the source's parts: Its values `(n,)`.
            - `"names"`: Names of the examples, such as files, or else they are the numbers of rows.
        source_name: Name of the source.
        target_name: Name of the target.
        test_share: See `dann.data.arrays`, as for the other arguments.
        kinds: The kind of each nuisance, as `dann.data.nuisances.asked_for` returns them. There is
            no target then; the source without its labels takes its place. Defaults to none.

    Raises:
        ValueError: If inputs or labels do not fit; else as `DomainPair` and `hold_out`.
    """
    parts: dict[str, Any] = {name: _as_columns(name, part) for name, part in given.items()}
    class_names = _number_labels(parts, class_names)
    for name in [name for name in ("source", "target") if name in parts]:
        if f"{name} test" not in parts:
            part = parts[name]
            rows = hold_out(part["labels"], part.get("groups"), test_share, seed, name == "source")
            parts[name], parts[f"{name} test"] = (_rows_of(part, one) for one in rows)
    _check_groups_apart(parts)
    source, source_test = parts["source"], parts["source test"]
    for name, part in (("target", source), ("target test", source_test)) if kinds else ():
        parts[name] = {**part, "labels": np.full_like(part["labels"], UNKNOWN)}
    target, test = parts["target"], parts.get("target new", parts["target test"])
    labels = np.concatenate([source["labels"], source_test["labels"]])
    return DomainPair(
        source=source_name,
        target=target_name,
        source_train=(source["inputs"], source["labels"]),
        source_test=(source_test["inputs"], source_test["labels"]),
        target_train=target["inputs"],
        target_test=(test["inputs"], _if_any(test["labels"])),
        num_classes=len(class_names) if class_names else int(labels.max(initial=0)) + 1,
        class_names=class_names,
        target_train_labels=_if_any(target["labels"]),
        target_names=(target["names"], test["names"]),
        nuisances=encode_nuisances(kinds, source, source_test) if kinds else None,
    )


def select_columns(
    part: str, table: Mapping[str, Any], columns: Mapping[str, str | None], nuisances: Iterable[str]
) -> dict[str, Any]:
    """Returns a part as `build_pair` takes it from the columns of a table.

    Args:
        part: Name of the part.
        table: Columns or arrays by name.
        columns: Their names by what they are, such as `"labels"`; `None` if there are none.
        nuisances: Names of the nuisances.

    Raises:
        ValueError: If the table lacks one. Only labels of the target, groups of what is not divided
            and nuisances of what is not the source may be lacking.
    """
    is_source = part.startswith("source")
    chosen = {role: name for role, name in columns.items() if name}
    if part not in ("source", "target"):
        chosen.pop("groups", None)
    if is_source:
        chosen |= {f"nuisance {name}": name for name in nuisances}
    for role, name in chosen.items():
        if name not in table and (is_source or role != "labels"):
            raise ValueError(
                f"The {part} must have {role} in {name!r}.{did_you_mean(name, list(table))} "
                f"Received: {list(table)}"
            )
    return {role: np.asarray(table[name]) for role, name in chosen.items() if name in table}


def check_disjoint(
    parts: Mapping[str, Any], overlap: Callable[[Any, Any], bool], what: str
) -> None:
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


def _as_columns(name, part):
    """The inputs, the columns that are given as arrays of one length, and names."""
    inputs = _as_inputs(name, part["inputs"])
    columns: dict[str, Any] = {"names": np.arange(len(inputs)), **part, "inputs": inputs}
    for key in [key for key, column in columns.items() if column is None]:
        del columns[key]
    for key in columns.keys() - {"inputs"}:
        columns[key] = np.asarray(columns[key])
        if columns[key].shape != (len(inputs),):
            raise ValueError(
                f"The {name} must have one of its {key} for each input. "
                f"Received: {len(inputs)} inputs and {key} of shape {columns[key].shape}"
            )
    return columns


def _as_inputs(name, values):
    """Numbers, floats of at most 32 bits, or texts."""
    values = as_array(values, name)
    if len(values.shape) < (1 if values.dtype == object else 2):
        raise ValueError(
            f"Inputs of the {name} must be numbers of shape (batch, size, ...) or texts. "
            f"Received: {values.dtype} of shape {values.shape}"
        )
    if values.dtype.kind != "f" or values.dtype.itemsize <= 4:
        return values
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        return np.asarray(values).astype(np.float32)


def _number_labels(parts, class_names):
    """Makes all labels integers; returns the names of the classes: the given, or the source's."""
    known = {name: part["labels"] for name, part in parts.items() if "labels" in part}
    known = {name: _as_labels(name, labels) for name, labels in known.items()}
    if not {name for name in parts if name.startswith("source")} <= known.keys():
        raise ValueError("The source must be `(inputs, labels)`. Received: no labels")
    texts = any(labels.dtype.kind == "U" for labels in known.values())
    if class_names is None and texts:
        # The target's labels do not decide what the classes are.
        found = {label for name in known if "source" in name for label in known[name].tolist()}
        class_names = _in_order(found - {""})
    names = None if class_names is None else tuple(class_names)
    numbers = {"": UNKNOWN, **{name: number for number, name in enumerate(names or ())}}
    for name, labels in known.items() if texts else ():
        strange = set(labels.tolist()) - numbers.keys()
        if strange:
            raise ValueError(f"Labels of the {name} must be among {names}. Received: {strange}")
        known[name] = np.array([numbers[label] for label in labels.tolist()], np.int64)
    for name, part in parts.items():
        part["labels"] = known.get(name, np.full(len(part["inputs"]), UNKNOWN))
    return names


def _as_labels(name, labels):
    """Labels as integers or strings."""
    texts = labels.dtype.kind in "UT" or all(isinstance(label, str) for label in labels.flat)
    if not (texts or labels.dtype.kind in "biu"):
        raise ValueError(f"Labels of the {name} must be integers or strings. Received: {labels}")
    return labels.astype(str if texts else np.int64)


def _in_order(names):
    """In the order of numbers if all are, else of texts."""
    names = sorted(names)  # first, so that "1" and "01" have one order
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def _rows_of(part, rows):
    """These rows of every column of a part."""
    return {
        key: column[rows] if type(column) is np.ndarray else Rows(column, rows)
        for key, column in part.items()
    }


def _check_groups_apart(parts):
    """Domains with the same groups test on the same ones; others must not share any."""
    groups = {name: {*part["groups"].tolist()} for name, part in parts.items() if "groups" in part}
    for name, other in itertools.product(("source", "target"), ("source test", "target test")):
        shared = sorted(groups.get(name, set()) & groups.get(other, set()))
        if shared:
            raise ValueError(
                "No group may be trained on and tested on; groups of both domains that are not the "
                "same thing need different names. Received: groups of the "
                f"{name} to train on and of the {other} {shared[:5]}"
            )


def _if_any(labels):
    """The labels, or `None` if all are unknown."""
    return labels if (labels != UNKNOWN).any() else None
