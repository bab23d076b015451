"""Two domains that are CSV tables."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dann.data.apart import check_apart
from dann.data.arrays import arrays
from dann.data.csv_file import read_tables, some
from dann.data.domain_pair import DomainPair


def csv_table(
    source: str | os.PathLike,
    target: str | os.PathLike,
    label: str,
    *,
    numeric: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    source_test: str | os.PathLike | None = None,
    target_test: str | os.PathLike | None = None,
    delimiter: str = ",",
    test_share: float = 0.2,
    seed: int = 0,
    source_name: str | None = None,
    target_name: str | None = None,
) -> DomainPair:
    """Pairs two CSV files (UTF-8, with a header) that have the same columns, in any order.

    Numeric columns are standardised, a missing value (empty, `NA` or `NaN`) first replaced by the
    median. Categorical columns become one number a category, an empty cell being a category too;
    one that no training row has becomes zeros. Medians, means, deviations and categories are those
    of the training rows of both domains, which takes none of the target's labels, and never those
    of test rows.

    Names of columns, categories and labels are taken without the spaces around them; `NA` is a name
    like any other there. The source's labels are the classes, in order. The target's column of
    labels may have empty cells, or be absent if there is `target_test`. How test rows are drawn:
    see `dann.data.arrays`. No file may be both tested on and trained on; what rows of different
    files hold is not compared.

    Args:
        source: Path of the source's table.
        target: Path of the target's table.
        label: Name of the column of labels.
        numeric: Names of numeric columns; the others are categorical. Defaults to `None`: those in
            which every value of every file is a number, but for those that `categorical` names.
        categorical: Names of categorical columns. Defaults to `None`. With `numeric` given too,
            columns that are in neither are left out.
        source_test: Path of a table to test on. Defaults to `None`: a share of the source.
        target_test: The same for the target. Defaults to `None`: a share of its labelled rows.
        delimiter: What stands between cells, one character. Defaults to `","`.
        test_share: Share of the rows that is drawn for a test, in (0, 1). Defaults to `0.2`.
        seed: Seed of the draws.
        source_name: What to call the source. Defaults to the file's name.
        target_name: What to call the target. Defaults to the file's name.

    Returns:
        A pair with inputs float32 `(n, features)`: numeric columns, then categories by column.

    Raises:
        OSError: If a file is not there.
        TypeError: If `numeric` or `categorical` is one string.
        ValueError: If there is no source or target, a file is no table or is both tested on and
            trained on, columns differ or are not there, a numeric column holds something else, a
            label is missing or strange, there are none to test with, or the delimiter cannot be
            one.
    """
    paths = {
        "source": source,
        "target": target,
        "source test": source_test,
        "target test": target_test,
    }
    present = {part: pathlib.Path(path).expanduser() for part, path in paths.items() if path}
    domains = ("source", "target")
    for name in domains:
        if name not in present:
            raise ValueError(
                f"Argument `{name}` must be the path of a CSV file. Received: {paths[name]!r}"
            )
    tests = [f"{name} test" if f"{name} test" in present else name for name in domains]
    check_apart({name: present[name] for name in domains}, {name: present[name] for name in tests})
    tables, columns, texts = read_tables(present, label, numeric, categorical, delimiter)
    names = _class_names(tables)
    _check_labels(tables, names, label)
    cells = _stacked(tables.values(), columns, texts)
    # The rows are split as if their numbers were the inputs, then encoded.
    rows = _numbered(tables)
    pair = arrays(
        rows["source"],
        rows["target"],
        source_test=rows.get("source test"),
        target_test=rows.get("target test"),
        test_share=test_share,
        seed=seed,
        source_name=source_name or present["source"].stem,
        target_name=target_name or present["target"].stem,
        class_names=names,
    )
    train = np.concatenate([pair.source_train[0], pair.target_train])[:, 0]
    inputs = _encode(cells, train, columns, texts)

    def encoded(examples):
        return inputs[examples[0][:, 0]], examples[1]

    return dataclasses.replace(
        pair,
        source_train=encoded(pair.source_train),
        source_test=encoded(pair.source_test),
        target_train=inputs[pair.target_train[:, 0]],
        target_test=encoded(pair.target_test),
    )


def _class_names(tables):
    """The source's labels in order, that of numbers if all are numbers."""
    parts = [tables[part].labels for part in ("source", "source test") if part in tables]
    names = sorted(set().union(*parts))
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def _check_labels(tables, names, label):
    for part, table in tables.items():
        for line, value in zip(table.lines, table.labels, strict=True):
            if not value and part != "target":
                raise ValueError(
                    f"{table.path}, line {line}: every row of the {part} must have a label in "
                    f"{label!r}. Received: an empty cell"
                )
            if value and value not in names:
                raise ValueError(
                    f"{table.path}, line {line}: a label must be one of the source's classes "
                    f"{some(names)}. Received: {value!r}"
                )


def _stacked(tables, columns, texts):
    """All rows as numbers `(n, columns)`: a category becomes its place among the sorted ones."""
    cells = np.concatenate([table.numbers for table in tables])
    for name in texts:
        values = [value for table in tables for value in table.texts[name]]
        places = {value: place for place, value in enumerate(sorted(set(values)))}
        cells[:, columns.index(name)] = [places[value] for value in values]
    return cells


def _numbered(tables):
    """The numbers `(n, 1)` of the rows in the stack, and their labels, by part."""
    labels = [np.array(table.labels) for table in tables.values()]
    ends = np.cumsum([len(part) for part in labels])
    numbers = np.split(np.arange(ends[-1])[:, np.newaxis], ends[:-1])
    return dict(zip(tables, zip(numbers, labels, strict=True), strict=True))


def _encode(cells, train, columns, texts):
    """All rows as features, float32 `(n, features)`, by what the rows `train` are like."""
    steps: list[Any] = [StandardScaler()]
    if np.isnan(cells).any():
        steps.insert(0, SimpleImputer(strategy="median", keep_empty_features=True))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    text = [name in texts for name in columns]
    parts = [
        ("numeric", make_pipeline(*steps), np.flatnonzero(np.logical_not(text))),
        ("categorical", encoder, np.flatnonzero(text)),
    ]
    table = ColumnTransformer(parts).fit(cells[train])
    return np.asarray(table.transform(cells), dtype=np.float32)
