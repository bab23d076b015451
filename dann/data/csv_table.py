"""The reader of CSV tables."""

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

from dann.checks import check_integer, check_number
from dann.data.arrays import arrays
from dann.data.csv_parser import read_tables, some
from dann.data.domain_pair import DomainPair
from dann.data.readers import READERS
from dann.data.splits import check_files_apart


@READERS.register(
    "csv_table",
    summary="Two CSV tables with the same columns.",
    reads="tables with numbers and categories",
    command="data=csv data.source=a.csv data.target=b.csv data.label=class network=tabular",
    config="csv",
)
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
    max_categories: int = 1000,
    max_gigabytes: float = 8.0,
) -> DomainPair:
    """Pairs two CSV files (UTF-8, with a header) that have the same columns, in any order.

    Numeric columns are standardised, after the median has replaced missing values (empty, `NA` or
    `NaN`). A categorical column becomes one number a category; an empty cell is a category too, and
    a category that no training row has becomes zeros. Medians, means, deviations and categories are
    those of the training rows of both domains. They do not depend on labels or on test rows.

    Spaces around names of columns, categories and labels are dropped; `NA` is a name like any other
    there. The classes are the source's labels, in order. The target's column of labels may have
    empty cells, and may be absent if `target_test` is given. How test rows are drawn, and the other
    arguments: see `dann.data.arrays`. No file is both trained on and tested on; rows of different
    files are not compared.

    Args:
        source: Path of the source's table.
        target: Path of the target's table.
        label: Name of the column of labels.
        numeric: Names of numeric columns; the others are categorical. Defaults to `None`: the
            columns in which every value of every file is a number, without those in `categorical`.
        categorical: Names of categorical columns. If `numeric` is given too, columns that neither
            names are left out. Defaults to `None`.
        source_test: Path of a table to test on. Defaults to `None`: a share of the source.
        target_test: The same for the target. Defaults to `None`: a share of its labelled rows.
        delimiter: The character between cells. Defaults to `","`.
        source_name: Name of the source. Defaults to the file's name.
        target_name: Name of the target. Defaults to the file's name.
        max_categories: The most categories of a column, and the most classes. Defaults to `1000`:
            a text with more is rather a name or a sentence.
        max_gigabytes: The most that the inputs may take of memory, in 10^9 bytes. Defaults to
            `8.0`.

    Returns:
        A pair with inputs float32 `(n, features)`: numeric columns, then categories by column.

    Raises:
        OSError: If a file does not exist.
        TypeError: If `numeric` or `categorical` is a single string.
        ValueError: If `source` or `target` is missing, a file is not a table or is both trained on
            and tested on, columns differ or do not exist, a numeric column holds something else, a
            label is missing or not a class of the source, there are too many categories or no
            labels to test with, or the delimiter is not one character.
    """
    paths = {
        "source": source,
        "target": target,
        "source test": source_test,
        "target test": target_test,
    }
    present = _present(paths)
    check_integer("max_categories", max_categories, 2)
    check_number("max_gigabytes", max_gigabytes, 0, above=True)
    tables, columns, texts = read_tables(present, label, numeric, categorical, delimiter)
    names = _class_names(tables)
    _check_sizes(tables, columns, {label: names}, texts, max_categories, max_gigabytes)
    _check_labels(tables, names, label)
    cells = _stacked(tables.values(), columns, texts)
    # The split comes first, with row numbers as inputs: the encoding needs the training rows.
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
    return _with_inputs(pair, _encode(cells, train, columns, texts))


def _present(paths):
    """The paths that are given, by part; raises `ValueError` if they are not those of two domains.

    None may be trained on and tested on.
    """
    present = {part: pathlib.Path(path).expanduser() for part, path in paths.items() if path}
    domains = ("source", "target")
    for name in domains:
        if name not in present:
            raise ValueError(
                f"Argument `{name}` must be the path of a CSV file. Received: {paths[name]!r}"
            )
    tests = [f"{name} test" if f"{name} test" in present else name for name in domains]
    trained, tested = ({name: present[name] for name in names} for names in (domains, tests))
    check_files_apart(trained, tested)
    return present


def _with_inputs(pair, inputs):
    """The pair with inputs in place of the numbers of their rows."""

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
    """The source's labels in order: as numbers if all are, else as text."""
    parts = [tables[part].labels for part in ("source", "source test") if part in tables]
    names = sorted(set().union(*parts))
    try:
        return sorted(names, key=float)
    except ValueError:
        return names


def _check_sizes(tables, columns, labels, texts, max_categories, max_gigabytes):
    """Raises `ValueError` if a column has too many categories, or the features are too large."""
    found = {name: set().union(*(table.texts[name] for table in tables.values())) for name in texts}
    for name, values in {**labels, **found}.items():
        if len(values) > max_categories:
            raise ValueError(
                f"A column of text may hold {max_categories} categories; leave out those that are "
                "no categories, with `numeric` and `categorical`, or raise `max_categories`. "
                f"Received: {len(values)} in {name!r}, such as {some(sorted(values), 3)}"
            )
    features = len(columns) - len(texts) + sum(map(len, found.values()))
    size = 8 * features * sum(len(table.labels) for table in tables.values())
    if size > max_gigabytes * 1e9:
        raise ValueError(
            f"The inputs may take {max_gigabytes:g} GB; leave out columns, with `numeric` and "
            "`categorical`, or raise `max_gigabytes` if you have the memory. "
            f"Received: {features} features of all rows, {size / 1e9:.3g} GB"
        )


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
    """All rows as numbers `(n, columns)`; a category becomes its place in the sorted list."""
    cells = np.concatenate([table.numbers for table in tables])
    for name in texts:
        values = [value for table in tables for value in table.texts[name]]
        places = {value: place for place, value in enumerate(sorted(set(values)))}
        cells[:, columns.index(name)] = [places[value] for value in values]
    return cells


def _numbered(tables):
    """For each part, the indices `(n, 1)` of its rows in the stacked table, and its labels."""
    labels = [np.array(table.labels) for table in tables.values()]
    ends = np.cumsum([len(part) for part in labels])
    numbers = np.split(np.arange(ends[-1])[:, np.newaxis], ends[:-1])
    return dict(zip(tables, zip(numbers, labels, strict=True), strict=True))


def _encode(cells, train, columns, texts):
    """All rows as features, float32 `(n, features)`, scaled and encoded by the rows `train`."""
    steps: list[Any] = [StandardScaler()]
    if np.isnan(cells).any():
        steps.insert(0, SimpleImputer(strategy="median", keep_empty_features=True))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    text = [name in texts for name in columns]
    parts = [
        ("numeric", make_pipeline(*steps), np.flatnonzero(np.logical_not(text))),
        ("categorical", encoder, np.flatnonzero(text)),
    ]
    with np.errstate(over="ignore", invalid="ignore"):  # told below
        table = ColumnTransformer(parts).fit(cells[train])
        encoded = np.asarray(table.transform(cells), dtype=np.float32)
    numeric = np.array(columns)[np.logical_not(text)]
    finite = np.isfinite(encoded[:, : len(numeric)]).all(axis=0)
    if not finite.all():
        raise ValueError(
            "A numeric column must have a finite mean and deviation; make its numbers smaller, or "
            f"leave it out with `numeric`. Received: {some(numeric[~finite].tolist())}, whose "
            "numbers are too large to be standardised"
        )
    return encoded
