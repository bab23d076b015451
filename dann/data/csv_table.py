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

from dann.checks import check_integer
from dann.data.arrays import arrays
from dann.data.domain_pair import DomainPair
from dann.data.readers import READERS
from dann.data.splits import check_apart, same_file


@READERS.register("csv_table")
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
) -> DomainPair:
    """Pairs two CSV files (UTF-8, with a header) that have the same columns, in any order.

    `pandas.read_csv` reads them, and a cell is missing where pandas says so: empty, `NA`, `N/A`,
    `null`, `NaN`, `None`, ... Numeric columns are standardised, after the median has replaced
    missing numbers. A categorical column becomes one number a category; a missing cell is a
    category too, and a category that no training row has becomes zeros. Medians, means, deviations
    and categories are those of the training rows of both domains. They do not depend on labels or
    on test rows. A printed line says which columns were taken as what.

    Spaces around names of columns, categories and labels are dropped. The classes are the source's
    labels, in order. The target's labels may be missing, all or some, or their column absent. How
    test rows are drawn, and the other arguments: see `dann.data.arrays`. No file is both trained on
    and tested on; rows of different files are not compared.

    Args:
        source: Path of the source's table.
        target: Path of the target's table.
        label: Name of the column of labels.
        numeric: Names of numeric columns; the others are categorical. Defaults to `None`: the
            columns in which every cell of every file is a number or missing, without those in
            `categorical`.
        categorical: Names of categorical columns. If `numeric` is given too, columns that neither
            names are left out. Defaults to `None`.
        source_test: Path of a table to test on. Defaults to `None`: a share of the source.
        target_test: The same for the target. Defaults to `None`: a share of its rows.
        delimiter: The character between cells. Defaults to `","`.
        source_name: Name of the source. Defaults to the file's name.
        target_name: Name of the target. Defaults to the file's name.
        max_categories: The most categories of a column, and the most classes. Defaults to `1000`:
            a text with more is rather a name or a sentence.

    Returns:
        A pair with inputs float32 `(n, features)`: numeric columns, then categories by column.

    Raises:
        OSError: If a file does not exist.
        ValueError: If a file is not a table or is both trained on and tested on; if columns differ
            or do not exist; if a numeric column holds something else, or most cells of a column
            that is not said to be categorical are numbers; if a label of the source is missing, or
            one of the target is no class of the source; or if there are too many categories.
    """
    import pandas

    given = {"source": source, "target": target}
    given |= {"source test": source_test, "target test": target_test}
    paths = {part: pathlib.Path(path).expanduser() for part, path in given.items() if path}
    trained = {part: paths[part] for part in ("source", "target")}
    tested = {part: path for part, path in paths.items() if f"{part} test" not in paths}
    check_apart(trained, tested, same_file, "files")
    check_integer("max_categories", max_categories, 2)
    tables = {part: _read(path, delimiter) for part, path in paths.items()}
    labels = {part: _labels(table, label, part) for part, table in tables.items()}
    columns = [_in_order(table, tables["source"], label, part) for part, table in tables.items()]
    cells = pandas.concat(columns, ignore_index=True)
    numbers, texts = _kinds(cells, numeric, categorical)
    class_names = _class_names(labels)
    counts = {name: cells[name].nunique() for name in texts}
    for name, count in [*counts.items(), (label, len(class_names))]:
        if count > max_categories:
            raise ValueError(
                f"A column may hold {max_categories} categories; leave out those that are none, "
                "with `numeric` and `categorical`, or raise `max_categories`. "
                f"Received: {count} in {name!r}"
            )
    shown = ", ".join(f"{name} ({count} values)" for name, count in counts.items())[:500]
    print(f"Columns taken as numbers: {len(numbers)}; as categories: {len(texts)}: {shown}")
    # The split comes first, with row numbers as inputs: the encoding needs the training rows.
    ends = np.cumsum([len(table) for table in tables.values()])
    rows = np.split(np.arange(ends[-1])[:, np.newaxis], ends[:-1])
    parts = dict(zip(tables, zip(rows, labels.values(), strict=True), strict=True))
    pair = arrays(
        parts["source"],
        parts["target"],
        source_test=parts.get("source test"),
        target_test=parts.get("target test"),
        test_share=test_share,
        seed=seed,
        source_name=source_name or paths["source"].stem,
        target_name=target_name or paths["target"].stem,
        class_names=class_names,
    )
    train = np.concatenate([pair.source_train[0], pair.target_train])[:, 0]
    inputs = _encode(cells, train, numbers, texts)
    encoded = {
        name: (inputs[getattr(pair, name)[0][:, 0]], getattr(pair, name)[1])
        for name in ("source_train", "source_test", "target_test")
    }
    return dataclasses.replace(pair, target_train=inputs[pair.target_train[:, 0]], **encoded)


def _read(path, delimiter) -> Any:
    """A frame of texts, NaN where a cell is missing."""
    import pandas

    form = {"sep": delimiter, "skipinitialspace": True, "encoding": "utf-8-sig"}
    try:
        table = pandas.read_csv(path, dtype=str, **form)
    except ValueError as error:
        raise ValueError(f"Expected a table in CSV. Received: {path}: {error}") from error
    if not isinstance(table.index, pandas.RangeIndex):
        raise ValueError(f"Rows must have as many cells as the header. Received: more, in {path}")
    table.columns = table.columns.str.strip()
    return table.apply(lambda column: column.str.strip())


def _labels(table, label, part):
    """The labels as texts, empty where one is unknown."""
    if label not in table and not part.startswith("target"):
        raise ValueError(
            f"The {part} must have the column of labels {label!r}. Received: {list(table.columns)}"
        )
    return table[label].fillna("").to_numpy(dtype=str) if label in table else [""] * len(table)


def _class_names(labels):
    """The source's labels in order: as numbers if all are, else as text."""
    names = {name for part in labels if part.startswith("source") for name in labels[part]} - {""}
    try:
        return sorted(names, key=float)
    except ValueError:
        return sorted(names)


def _in_order(table, source, label, part):
    """The columns of a table without its labels, in the order of the source's."""
    mine, its = (one.drop(columns=label, errors="ignore") for one in (source, table))
    lacks, others = (list(a.columns.difference(b.columns)) for a, b in ((mine, its), (its, mine)))
    if lacks or others or mine.shape[1] == 0:
        raise ValueError(
            "All tables must have the same columns, one or more beside the labels. Received: "
            f"the {part} without {lacks}, the source without {others}"
        )
    return its[mine.columns]


def _kinds(cells, numeric, categorical):
    """Names of the numeric and of the categorical columns; the numeric ones become numbers."""
    chosen = [*(numeric or ()), *(categorical or ())]
    strange = {*chosen} - {*cells.columns} | {name for name in chosen if chosen.count(name) > 1}
    if strange or [numeric, categorical] == [[], []]:
        raise ValueError(
            f"`numeric` and `categorical` must name different columns of {list(cells.columns)}. "
            f"Received: {sorted(strange) or 'none'}"
        )
    both = numeric is not None and categorical is not None
    texts = [*(categorical or ())]
    if numeric is not None and categorical is None:
        texts = [name for name in cells.columns if name not in numeric]
    numbers = []
    for name in chosen if both else cells.columns:
        if name not in texts and _become_numbers(cells, name, name in (numeric or ())):
            numbers.append(name)
        elif name not in texts:
            texts.append(name)
    cells[texts] = cells[texts].fillna("")
    return numbers, [name for name in cells.columns if name in texts]


def _become_numbers(cells, name, is_numeric):
    """Makes a column numbers if all its cells are; refuses one of which only most are."""
    import pandas

    to_numeric: Any = pandas.to_numeric
    values = to_numeric(cells[name], errors="coerce").astype("float64")
    wrong = cells[name][values.isna() & cells[name].notna()]
    # As people write them: 1,000, 12%, 3,5.
    digits = cells[name].dropna().str.replace(r"[\s,%€$£]", "", regex=True)
    alike = to_numeric(digits, errors="coerce").notna().mean()
    if np.isinf(values).any() or (len(wrong) and (is_numeric or alike > 0.5)):
        raise ValueError(
            f"Column {name!r} must hold finite numbers, such as 1200.5, and empty cells where one "
            "is missing; mend it, leave it out or name it in `categorical`. "
            f"Received: {sorted(set(wrong))[:3] or 'inf'} in {len(wrong)} of {len(values)} rows"
        )
    if len(wrong) == 0:
        cells[name] = values
    return len(wrong) == 0


def _encode(cells, train, numbers, texts):
    """All rows as features, float32 `(n, features)`, scaled and encoded by the rows `train`."""
    steps: list[Any] = [StandardScaler()]
    if cells[numbers].isna().any(axis=None):
        steps.insert(0, SimpleImputer(strategy="median", keep_empty_features=True))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    parts = [("numeric", make_pipeline(*steps), numbers), ("categorical", encoder, texts)]
    with np.errstate(over="ignore", invalid="ignore"):  # told below
        table = ColumnTransformer(parts).fit(cells.iloc[train])
        encoded = np.asarray(table.transform(cells), dtype=np.float32)
    if not np.isfinite(encoded).all():
        raise ValueError("Numeric columns must have finite means and deviations. Received: others")
    return encoded
