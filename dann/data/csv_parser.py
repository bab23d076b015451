"""Tables of numbers and text, read from CSV files."""

import collections
import csv
import dataclasses
import math
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

_MISSING = ("", "na")


@dataclasses.dataclass
class Table:
    """A file's rows: numbers `(n, columns)`, NaN where a cell has none, and texts by column."""

    path: pathlib.Path
    numbers: np.ndarray
    texts: dict[str, list[str]]
    labels: list[str]
    lines: list[int]


def read_tables(
    paths: dict[str, pathlib.Path],
    label: str,
    numeric: Sequence[str] | None,
    categorical: Sequence[str] | None,
    delimiter: str,
) -> tuple[dict[str, Table], list[str], set[str]]:
    """Reads files with the same columns, in any order, and a column of labels.

    A cell is a number, missing (empty, `NA` or `NaN`) or, in a categorical column, text. Arguments
    and errors are those of `dann.data.csv_table`.

    Args:
        paths: Paths by part: `"source"`, `"target"` and others. The target's may lack the labels.
        label: Name of the column of labels.
        numeric: Names of columns that must be numeric, or `None`.
        categorical: Names of categorical columns, or `None`.
        delimiter: The character between cells.

    Returns:
        The tables by part, the columns in their common order, and the set of categorical ones.
    """
    _check_form(numeric, categorical, delimiter)
    columns = _common_columns(paths, label, delimiter)
    _check_choice(columns, numeric, categorical)
    texts = set(categorical or ())
    if numeric is not None:
        texts = set(columns) - set(numeric) if categorical is None else texts
        chosen = texts.union(numeric)
        columns = [name for name in columns if name in chosen]

    def read(path, texts):
        return _read(path, columns, label, texts, set(numeric or ()), delimiter)

    tables = {part: read(path, texts) for part, path in paths.items()}
    texts = texts.union(*(table.texts for table in tables.values()))
    for part, table in tables.items():
        # The column looked numeric at first, so its first cells were not kept as text.
        if any(len(table.texts.get(name, ())) < len(table.labels) for name in texts):
            tables[part] = read(table.path, texts)
    return tables, columns, texts


def _check_form(numeric, categorical, delimiter):
    for name, value in (("numeric", numeric), ("categorical", categorical)):
        if isinstance(value, str):
            raise TypeError(
                f"Argument `{name}` must be a list of names of columns. Received: {name}={value!r}"
            )
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(
            "Argument `delimiter` must be one character, not a quote or the end of a line. "
            f"Received: delimiter={delimiter!r}"
        )


def _common_columns(paths, label, delimiter):
    columns = None
    for part, path in paths.items():
        names = next(_rows(path, delimiter))[1]
        if label not in names and part != "target":
            raise ValueError(
                f"{path} must have the column of labels {label!r}. Received: {some(names)}"
            )
        names = [name for name in names if name != label]
        columns = names if columns is None else columns
        if set(names) != set(columns):
            raise ValueError(
                "All tables must have the same columns. Received: "
                f"only in {paths['source']}: {some(sorted(set(columns) - set(names)))}, "
                f"only in {path}: {some(sorted(set(names) - set(columns)))}"
            )
    if not columns:
        raise ValueError(f"{paths['source']} must have a column beside the labels. Received: none")
    return columns


def _check_choice(columns, numeric, categorical):
    chosen = [*(numeric or ()), *(categorical or ())]
    strange = set(chosen) - set(columns)
    if strange or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"`numeric` and `categorical` must name different columns of {some(columns)}. "
            f"Received: numeric={numeric}, categorical={categorical}"
        )
    if not chosen and numeric is not None and categorical is not None:
        raise ValueError("`numeric` and `categorical` must name a column. Received: none in both")


def some(names: Iterable[str], limit: int = 12) -> str:
    """Returns the first names as a list, for a message."""
    names = list(names)
    return f"{names[:limit]}{' ...' if len(names) > limit else ''}"


def _rows(path, delimiter):
    """Yields line numbers and cells: the checked header, then the rows that are not blank."""
    if not path.is_file():
        state = "a folder" if path.is_dir() else "not there"
        raise FileNotFoundError(f"Expected a CSV file. Received: {path}, which is {state}")
    # Spreadsheets write a byte order mark, which is not part of the first name.
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
        header = None
        try:
            for row in filter(None, reader):
                if header is None:
                    header = row = [name.strip() for name in row]
                    _check_header(path, header)
                if len(row) != len(header):
                    raise ValueError(
                        f"{path}, line {reader.line_num}: a row must have {len(header)} cells, as "
                        f"the header. Received: {len(row)}"
                    )
                yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path}, after line {reader.line_num}: expected CSV in UTF-8. Received: {error}"
            ) from error
    if header is None:
        raise ValueError(f"{path} must have a header and rows. Received: an empty file")


def _check_header(path, header):
    repeated = [name for name, count in collections.Counter(header).items() if count > 1]
    if repeated or "" in header:
        received = f"{some(repeated)} more than once" if repeated else "one without a name"
        raise ValueError(
            f"{path}, line 1: every column must have a name of its own. Received: {received}"
        )


def _read(path, columns, label, texts, numeric, delimiter):
    """Reads a table; a column with text joins `texts`, or raises an error if it is `numeric`."""
    rows = _rows(path, delimiter)
    where = {name: index for index, name in enumerate(next(rows)[1])}
    texts = {name: [] for name in columns if name in texts}
    ignored = set(where) - set(columns)
    numbers, labels, lines = [], [], []
    for line, row in rows:
        lines.append(line)
        labels.append(row[where[label]].strip() if label in where else "")
        for name, cells in texts.items():
            cells.append(row[where[name]].strip())
        for name in (*ignored, *texts):
            row[where[name]] = ""
        values, others = _parsed(row)
        for index in others:
            name = list(where)[index]
            if name in numeric or not math.isnan(values[index]):
                raise ValueError(
                    f"{path}, line {line}: the numeric column {name!r} must hold finite numbers. "
                    f"Received: {row[index]!r}"
                )
            texts[name] = [row[index].strip()]
        numbers.append(values)
    if not lines:
        raise ValueError(f"{path} must have rows below its header. Received: none")
    order = [where[name] for name in columns]
    return Table(path, np.stack(numbers)[:, order], texts, labels, lines)


def _parsed(row):
    """The numbers in the cells, NaN for others, and the indices of text and infinite numbers."""
    if "_" not in "".join(row):  # `float` takes 1_2 for 12
        try:
            values = np.array([float(cell or "nan") for cell in row])
            return values, np.flatnonzero(np.isinf(values))
        except ValueError:
            pass
    numbers = [_number(cell) for cell in row]
    values = np.array(numbers, dtype=float)  # `None` becomes NaN
    others = [i for i, number in enumerate(numbers) if number is None or math.isinf(number)]
    return values, others


def _number(cell):
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in _MISSING else None
