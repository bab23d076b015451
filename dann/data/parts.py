"""Builds a pair of domains from the parts that a reader has read."""

import functools
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dann.checks import did_you_mean
from dann.data.conversion import as_array, reject_masked, reject_missing
from dann.data.domain_pair import DomainPair
from dann.data.examples import (
    InputSpec,
    check_matching_inputs,
    get_frame_columns,
    list_column_names,
)
from dann.data.labels import (
    NAME_CLASSES,
    convert_to_floats,
    encode_classes,
    get_known_labels,
    is_regression_task,
    read_labels,
)
from dann.data.lazy_array import select_rows
from dann.data.nuisances import NuisanceTable, encode_nuisances
from dann.data.splits import UNKNOWN, hold_out, is_known


def build_pair(
    parts: Mapping[str, Mapping[str, Any]],
    *,
    source_name: str,
    target_name: str,
    test_share: float = 0.2,
    seed: int = 0,
    class_names: Sequence[str] | None = None,
    task: str | None = None,
    kinds: Mapping[str, Any] | None = None,
) -> DomainPair:
    """Numbers the classes, draws missing test sets and builds the pair.

    Args:
        parts: The parts `"source"` and `"target"`, and optionally `"source test"`, `"target test"`
            and `"new target"`, which replaces the target's test set. A part is a dict of:

            - `"inputs"`: An array-like. Unless it is an array in memory, rows are read on demand.
            - `"labels"`: `(n,)`, integers, or strings that name the classes. Labels of the target
              may be missing or `None`; an unknown label is -1 or an empty string.
            - `"groups"`, for source and target: The group of each example, `(n,)`; see
              `dann.data.arrays`. If missing, each example is drawn on its own.
            - `"nuisance <name>"`, for parts of the source: Values of the nuisance, `(n,)`.
            - `"names"`: Names of the examples, such as file names. Defaults to row numbers.
        source_name: Name of the source.
        target_name: Name of the target.
        test_share: See `dann.data.arrays`.
        seed: See `dann.data.arrays`.
        class_names: See `dann.data.arrays`.
        task: See `dann.data.arrays`.
        kinds: Kind of each nuisance, as `dann.data.nuisances.parse_nuisances` returns them. There
            is then no target, and the result is a `NuisanceTable`. Defaults to none.

    Raises:
        ValueError: If inputs, labels or groups do not match; also see `DomainPair` and `hold_out`.
    """
    tables: dict[str, Any] = {name: _read_part(name, part) for name, part in parts.items()}
    specs = {name: InputSpec("rows", get_frame_columns(p["inputs"])) for name, p in parts.items()}
    for name, spec in specs.items():
        check_matching_inputs(specs["source"], spec, name)
    is_regression = is_regression_task(tables, task, class_names)
    if is_regression:
        convert_to_floats(tables, parts)
        if kinds:
            raise ValueError(
                "Expected classes with nuisances; in Python, `dann.Invariant` also supports "
                "regression. Received: numbers as labels"
            )
    else:
        class_names = encode_classes(tables, class_names)
    for name, table in tables.items():
        unknown = np.count_nonzero(~is_known(table["labels"]))
        if unknown and name.startswith("source"):
            raise ValueError(
                f"Expected the {name} to have a label for each example. Received: {unknown} of "
                f"{len(table['labels'])} examples with an empty label, NaN, or -1 as a class. Drop "
                "these examples"
            )
    for name in ("source", "target"):
        if name in tables and f"{name} test" not in tables:
            table = tables[name]
            labels = table["labels"]
            if is_regression:  # one class, so that the test set is drawn regardless of the labels
                labels = np.where(is_known(labels), 0, UNKNOWN)
            rows = hold_out(
                labels, table.get("groups"), test_share, seed, is_source=name == "source"
            )
            tables[name], tables[f"{name} test"] = (
                {key: select_rows(column, indices) for key, column in table.items()}
                for indices in rows
            )
    _check_groups(tables)
    source, source_test = tables["source"], tables["source test"]
    pair_class: Any = DomainPair
    if kinds:
        nuisances = encode_nuisances(kinds, source, source_test)
        pair_class = functools.partial(NuisanceTable, nuisances=nuisances)
        for part, table in (("target", source), ("target test", source_test)):
            tables[part] = {**table, "labels": np.full_like(table["labels"], UNKNOWN)}
    target, target_test = tables["target"], tables.get("new target", tables["target test"])
    # Only the source determines the classes; the target's labels may be unknown.
    labels = np.concatenate([source["labels"], source_test["labels"]])
    num_classes = 1
    if not is_regression:
        num_classes = len(class_names) if class_names else int(labels.max(initial=0)) + 1
        if num_classes < 2:
            raise ValueError(
                "Expected the source to have labels of at least 2 classes. Received: 1 class. Add "
                "examples of other classes"
            )
    target_labels = np.concatenate([target["labels"], target_test["labels"]])
    if not is_regression and target_labels.max(initial=0) >= num_classes:
        raise ValueError(
            f"Expected labels of the target to be below {num_classes}, the number of classes. "
            f"Received: {target_labels.max()}. {NAME_CLASSES}"
        )
    return pair_class(
        source=source_name,
        target=target_name,
        source_train=(source["inputs"], source["labels"]),
        source_test=(source_test["inputs"], source_test["labels"]),
        target_train=target["inputs"],
        target_test=(target_test["inputs"], get_known_labels(target_test)),
        num_classes=num_classes,
        class_names=class_names,
        target_train_labels=get_known_labels(target),
        target_names=(target["names"], target_test["names"]),
        target_rows=(target["rows"], target_test["rows"]),
        columns=list_column_names(parts["source"]["inputs"]),
    )


def resolve_files(files: Mapping[str, Any]) -> dict[str, pathlib.Path]:
    """Returns the paths of the files that are not `None`, by part.

    Raises:
        OSError: If a file does not exist, or is a folder.
        TypeError: If a file is not a path.
        ValueError: If a file is used for training and for testing.
    """
    paths = {}
    for part, file in files.items():
        if file is None:
            continue
        if not isinstance(file, str | os.PathLike):
            raise TypeError(
                f"Expected the {part} to be the path of a file; for `csv_table` also a data frame "
                f"that contains the labels in a column. Received: {type(file).__name__}"
            )
        path = paths[part] = pathlib.Path(file).expanduser()
        if path.is_dir():
            raise IsADirectoryError(f"Expected the {part} to be a file. Received: {path}, a folder")
    check_disjoint(paths, os.path.samefile, "files")
    return paths


def select_columns(
    part: str,
    table: Mapping[str, Any],
    columns: Mapping[str, str | None],
    nuisances: Iterable[str],
    suffix: str = "",
) -> dict[str, Any]:
    """Selects the columns of a table that `build_pair` takes.

    Args:
        part: Name of the part.
        table: Columns or arrays by name.
        columns: Column names by role, such as `"labels"`; `None` for a role without a column.
        nuisances: Names of the nuisances.
        suffix: Suffix of all names in the table. Defaults to none.

    Raises:
        ValueError: If a required column is missing. Labels and nuisances of the target, ids of the
            source, and groups of parts that are not split are optional.
    """
    is_source = part.startswith("source")
    roles = {role: name for role, name in columns.items() if name}
    if part not in ("source", "target"):  # only these parts are split
        roles.pop("groups", None)
    if is_source:
        roles |= {f"nuisance {name}": name for name in nuisances}
    roles = {role: f"{name}{suffix}" for role, name in roles.items()}
    for role, name in roles.items():
        if name not in table and role != ("names" if is_source else "labels"):
            setting = {"labels": "label", "names": "id", "groups": "groups"}.get(role, "nuisances")
            near = did_you_mean(name, list(table))
            if any(str(column)[:1].isdigit() for column in table):
                near = " Does the file have a header?"
            advice = f" or, in a CSV file, set `{setting}` (data.{setting}) to one of these columns"
            raise ValueError(
                f"Expected the {part} to have {role} in {name!r}.{near} "
                f"Received: {list(table)}. Rename one{advice if role != 'inputs' else ''}"
            )
    return {role: np.asarray(table[name]) for role, name in roles.items() if name in table}


def check_disjoint(
    parts: Mapping[str, Any], overlap: Callable[[Any, Any], bool], content: str
) -> None:
    """Raises `ValueError` if test data and training data overlap.

    Args:
        parts: Parts of the data by name: `"source"`, `"target"`, and optionally `"source test"`,
            `"target test"` and `"new target"`. A domain without a test set also counts as test
            data, because its test set is drawn from it.
        overlap: Returns whether two parts have a common example.
        content: Content of the parts, in the plural, such as "files", for the message.
    """
    test_parts = [name for name in parts if f"{name} test" not in parts]
    train_parts = [name for name in parts if not name.endswith("test")]
    for name, other_name in itertools.product(test_parts, train_parts):
        if name != other_name and overlap(parts[name], parts[other_name]):
            is_new = {name, other_name} == {"target", "new target"}
            advice = ". predictions.csv of a run contains their predictions" if is_new else ""
            raise ValueError(
                f"Expected different {content} as the {name} and the {other_name}, because test "
                f"data must not be used for training. Received: {content} with common examples"
                f"{advice}"
            )


def _read_part(name, part):
    """Returns the inputs of a part, and its other columns as arrays; missing labels become -1."""
    inputs = _read_inputs(name, part["inputs"])
    if name.startswith("source") and part.get("labels") is None:
        raise ValueError("Expected the source to be `(inputs, labels)`. Received: no labels")
    rows = np.arange(len(inputs))
    columns = {"names": rows, "rows": rows, "labels": np.full(len(inputs), UNKNOWN)}
    for key, column in part.items():
        if key != "inputs" and column is not None:
            reject_masked(column, f"{key} of the {name}")
            columns[key] = np.asarray(column)
    if part.get("groups") is not None:
        reject_missing(part["groups"], "group")  # NaN would be in both sets
    labels = columns["labels"]
    if labels.ndim == 2:
        advice = "Pass `np.ravel(labels)`"
        if labels.shape[1] > 1:
            advice = "If labels are one-hot, pass `np.argmax(labels, axis=1)`"
        raise ValueError(
            f"Expected labels of the {name} to be class numbers, or numbers, of shape (n,). "
            f"Received: labels of shape {labels.shape}. {advice}"
        )
    for key, column in columns.items():
        if column.shape != (len(inputs),):
            raise ValueError(
                f"Expected the {name} to have one of its {key} per input. "
                f"Received: {len(inputs)} inputs and {key} of shape {column.shape}"
            )
    return {**columns, "inputs": inputs, "labels": read_labels(name, columns["labels"])}


def _read_inputs(name, values):
    """Returns texts, or numbers; floats of more than 32 bits become float32."""
    values = as_array(values, name)
    if len(values.shape) < (1 if values.dtype == object else 2):
        raise ValueError(
            f"Expected inputs of the {name} to be numbers of shape (batch, size, ...) or strings "
            f"of shape (batch,). Received: {values.dtype} of shape {values.shape}"
        )
    if values.dtype.kind != "f" or values.dtype.itemsize <= 4:
        return values
    with np.errstate(over="ignore"):  # `DomainPair` rejects the infinite values
        return np.asarray(values).astype(np.float32)


def _check_groups(tables):
    """Checks that no group is in a training set and in a test set, of either domain."""
    groups = {name: {*np.ravel(table.get("groups", ())).tolist()} for name, table in tables.items()}
    for train, test in itertools.product(("source", "target"), ("source test", "target test")):
        common_groups = sorted(groups.get(train, set()) & groups.get(test, set()))
        if common_groups:
            raise ValueError(
                "Expected no group in both a training set and a test set. Received: groups of the "
                f"{train} and of the {test} {common_groups[:5]}. Use different names for different "
                "groups"
            )
