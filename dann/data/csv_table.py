"""Reader of CSV tables."""

import dataclasses
import gzip
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dann.checks import did_you_mean
from dann.data.domain_pair import DomainPair
from dann.data.nuisances import parse_nuisances
from dann.data.parts import build_pair, check_disjoint, resolve_files, select_columns
from dann.data.table_columns import (
    MAX_CATEGORIES,
    convert_to_numbers,
    unify_booleans,
    warn_about_columns,
    warn_about_large_inputs,
    warn_about_new_categories,
)

_WHOLE = r"^([+-]?\d+)\.0+$"


def csv_table(
    source: Any,
    target: Any = None,
    label: str = "label",
    *,
    categorical: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    id: str | None = None,
    source_test: Any = None,
    target_test: Any = None,
    delimiter: str = ",",
    target_new: Any = None,
    groups: str | None = None,
    nuisances: Sequence[str] | Mapping[str, Any] | None = None,
    verbose: bool = True,
    **options: Any,
) -> DomainPair:
    """Pairs two CSV files or pandas data frames with the same columns, in any order.

    Files are in UTF-8 and have a header. A data frame is treated like the file that
    `to_csv(index=False)` writes, so its index is not an input.

    With `nuisances`, the function reads one labeled table and holds out a part of it; see
    `dann.Invariant`.

    `pandas.read_csv` reads the files; cells that are empty or contain `NA`, `N/A`, `null`, `NaN`,
    `None` and so on are missing values. Missing numbers are replaced by the median, and numeric
    columns are then standardized. A categorical column becomes one-hot columns, at most 1,000, the
    last of which represents all rarer categories. The missing cells of a categorical column are a
    category of their own, with a one-hot column. A category that occurs only in test rows becomes
    zeros. Medians, means, standard deviations and categories are computed from the training rows of
    both domains, without labels and test rows. A printed line lists the numeric and the categorical
    columns.

    Spaces around column names, categories and labels are removed; `1.0` is the same category or
    label as `1`, and so is `True` in a column of booleans that also contains `1` or `0`.

    The function warns about

    - columns that reveal the domain: many rows of one domain have a category that the other domain
      lacks, such as `F` and `female`, the numbers of the domains do not overlap, or one domain has
      many more missing numbers
    - whole numbers that differ in all rows, such as identifiers
    - columns of dates, or with nearly as many categories as rows, such as free text
    - numeric columns with inputs above 1,000, whose training rows are constant or in other units

    The classes are the labels of the source, in order. The target may lack some labels, or the
    whole column. See `dann.data.arrays` for how test rows are drawn. No file may be used for both
    training and testing; rows of different files are not compared.

    Args:
        source: Path of the source's table, or a data frame.
        target: Path of the target's table, or a data frame. Defaults to `None`: one labeled table,
            the source.
        label: Name of the label column. Defaults to `"label"`.
        categorical: Name or names of numeric columns to treat as categories. All other columns
            whose cells are numbers or missing in every file are numeric. Defaults to none.
        drop: Name or names of columns that are not inputs, such as row numbers, dates or free text.
            Defaults to none.
        id: Name of a column that identifies the rows, which is not an input. It becomes the column
            `example` of the predictions. Defaults to `None`: row numbers.
        source_test: Path of a test table, or a data frame. Defaults to `None`: a share of the
            source.
        target_test: Path of a test table, or a data frame. Defaults to `None`: a share of the
            target.
        delimiter: Character between cells; a tab may be written as backslash and t. Defaults to
            `","`.
        target_new: Path of new target examples, labeled or not, or a data frame, which replace the
            target's test set and must have the same kinds of columns, numbers, booleans or text, as
            the other tables. `scripts/evaluate.py target=...` sets it. Defaults to `None`.
        groups: Name of the group column, which is not an input. Whole groups are then drawn for
            test sets; see `dann.data.arrays`. Defaults to `None`.
        nuisances: Names of the nuisance columns of one labeled table, which are not inputs; or a
            dict from name to number of classes or `"number"`; see
            `dann.data.nuisances.encode_nuisances`. Defaults to `None`.
        verbose: Whether to print the list of the columns, and warnings about them if there is no
            `target_new`. Defaults to `True`.
        **options: `test_share`, `seed`, `class_names` and `task` of `dann.data.arrays`.

    Returns:
        A pair with inputs float32 `(n, features)`: numeric columns, then the categories by column.
        Its frame `encoding` has one row per numeric column or category. `input` is the position of
        the input in the features, and `column` the name of the column. The input of a number is
        `(number - mean) / scale`, and `median` replaces a missing number. The other rows have no
        `scale`: the input is 1 if the cell is `category`, which is empty for a missing cell, and
        otherwise 0. All rarer categories have the same `input`. Categories are text without spaces
        at its ends, with `1.0` written as `1`; read `encoding.csv` of a run with `dtype=str`.

    Raises:
        OSError: If a file does not exist.
        TypeError: If a table is neither a path nor a data frame, or `label`, `groups` or `id` is no
            name.
        ValueError: If a file is not a table in UTF-8; a file or frame is used for training and
            testing; columns differ, do not exist or have the same name; no column is an input; most
            but not all cells of a column that is not listed as categorical are finite numbers; a
            column of the new target has another kind; a label of the source is missing; or a label
            of the target is not a class of the source.
    """
    for option, name in {"label": label, "groups": groups, "id": id}.items():
        if not isinstance(name, str | None):
            raise TypeError(
                f"Expected `{option}` to be the name of a column. Received: {type(name).__name__}"
            )
    if not isinstance(delimiter, str) or not delimiter:
        raise ValueError(
            "Expected `delimiter` to be the character between cells, such as ',' or ';' "
            f"(data.delimiter). Received: {delimiter!r}"
        )
    kinds = parse_nuisances(nuisances, target is not None)
    files = {"source": source, "target": target, "source test": source_test}
    files |= {"target test": target_test, "new target": target_new}
    frames = {part: table for part, table in files.items() if isinstance(table, pandas.DataFrame)}
    check_disjoint(frames, _share_rows, "data frames")
    paths = resolve_files({part: path for part, path in files.items() if part not in frames})
    delimiter = delimiter.replace(r"\t", "\t")  # as written in a shell
    tables = {part: _read_table(table, delimiter) for part, table in {**frames, **paths}.items()}
    stems = {"source": "source", "target": "target", **{part: paths[part].stem for part in paths}}
    dropped_names, categorical_names = _collect_names(drop), _collect_names(categorical)
    listed_names = dropped_names | categorical_names | _collect_names(id)
    for name in sorted(listed_names.difference(*tables.values())):
        raise ValueError(
            "Expected `drop`, `categorical` and `id` to contain names of columns."
            f"{did_you_mean(name, list(tables['source']))} Received: {name!r}"
        )
    unify_booleans(tables)
    roles = {"labels": label, "groups": groups, "names": id}
    excluded = {label, groups, id, *kinds, *dropped_names}
    parts = {
        # A column that is both nuisance and group keeps its missing values as a nuisance.
        part: {
            **select_columns(part, table, roles, kinds),
            **select_columns(part, table.fillna({label: "", groups: "", id: ""}), roles, ()),
        }
        for part, table in tables.items()
    }
    names = [name for name in tables["source"] if name not in excluded]
    if not names:
        raise ValueError(
            "Expected a column that is an input. Received: only columns of labels, groups, "
            f"nuisances and ids, and columns in `drop`: {list(tables['source'])}"
        )
    for part, table in tables.items():
        missing, new = sorted({*names} - {*table}), sorted({*table} - {*names} - excluded)
        if missing or new:
            received = [f"columns {missing} that the {part} lacks"] if missing else []
            received += [f"columns {new} of only the {part}"] if new else []
            is_new = part == "new target"
            advice = "Rename them, or list them in `drop` (data.drop)"
            raise ValueError(
                "Expected all tables to have the same columns. Received: "
                f"{', '.join(received)}. {'Correct the file' if is_new else advice}"
            )
    cells: Any = pandas.concat(tables)[names]
    numbers = [
        name for name in names if name not in categorical_names and convert_to_numbers(cells, name)
    ]
    texts = [name for name in names if name not in numbers]
    cells[texts] = cells[texts].fillna("")
    if verbose and target_new is None:
        summary = ", ".join(f"{name} ({cells[name].nunique()} values)" for name in texts)[:500]
        listed = f": {summary}" if texts else ""
        print(f"Numeric columns: {len(numbers)}; categorical columns: {len(texts)}{listed}")
        warn_about_columns(cells, texts)
    # Split row numbers first, because the encoding needs to know the training rows.
    for part, part_columns in parts.items():
        rows = np.flatnonzero(cells.index.get_level_values(0) == part)
        part_columns["inputs"] = rows[:, np.newaxis]
    pair = build_pair(
        parts,
        source_name=stems["source"],
        target_name=stems["source" if target is None else "target"],
        kinds=kinds,
        **options,
    )
    train = np.concatenate([pair.source_train[0], pair.target_train])[:, 0]  # row numbers
    features, encoding = _encode(cells, train, numbers, texts)
    is_new = cells.index.get_level_values(0) == "new target"
    if verbose or is_new.any():
        warn_about_large_inputs(numbers, features[is_new] if is_new.any() else features)
    warn_about_new_categories(cells[texts][is_new], cells.iloc[train])
    pair = pair.map_inputs(lambda rows: features[rows[:, 0]])
    return dataclasses.replace(pair, encoding=encoding)


def _collect_names(names) -> set[str]:
    """Returns the set of a single name or of several names; `None` means no names."""
    return {names} if isinstance(names, str) else {*(names or ())}


def _share_rows(first, second):
    """Returns whether two frames are the same, or slices of one frame with common rows."""
    return first is second or any(
        np.shares_memory(first[name].to_numpy(), second[name].to_numpy())
        for name in first.columns.intersection(second.columns)
    )


def _read_table(table_or_path, delimiter) -> Any:
    """Returns a frame of strings, with NaN for missing cells."""
    path = file = table_or_path
    if isinstance(table_or_path, pandas.DataFrame):
        path, file = "a data frame", io.StringIO(table_or_path.to_csv(index=False, sep=delimiter))
    csv_options: Any = {"sep": delimiter, "skipinitialspace": True, "encoding": "utf-8-sig"}
    try:
        names = pandas.read_csv(file, dtype=str, header=None, nrows=1, **csv_options).iloc[0]
        if isinstance(file, io.StringIO):
            file.seek(0)
        table = pandas.read_csv(file, dtype=str, **csv_options)
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:  # empty, damaged
        advice = ". Save the file in UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise ValueError(
            "Expected a CSV file in UTF-8 with a header. Received: "
            f"{path}: {str(error).strip()}{advice}"
        ) from error
    names = names.dropna().str.strip()
    if not names.is_unique:  # pandas would rename a second column `a` to `a.1`
        raise ValueError(
            f"Expected {path} to have a different name for each column. Received: several columns "
            f"{names[names.duplicated()].iloc[0]!r}. Rename or remove the others"
        )
    header = table.columns.str.strip()
    if len(header) == 1 and (delimiters := [text for text in ";\t|" if text in header[0]]):
        raise ValueError(
            f"Expected {path} to have cells separated by {delimiter!r}. Set `delimiter`, in a "
            f"command 'data.delimiter={json.dumps(delimiters[0])}'. Received: the header "
            f"{header[0]!r}"
        )
    if not isinstance(table.index, pandas.RangeIndex):
        raise ValueError(
            f"Expected {path} to have as many cells in each row as in the header. Received: more "
            "cells. Quote cells that contain the delimiter, or set `delimiter` (data.delimiter)"
        )
    if table.empty:
        raise ValueError(f"Expected {path} to have rows. Received: only the header {list(header)}")
    table.columns = header
    # pandas and spreadsheets write integers of a column with missing cells as 1.0.
    return table.apply(lambda column: column.str.strip().str.replace(_WHOLE, r"\1", regex=True))


def _encode(cells, train, numbers, texts):
    """Returns all rows as float32 `(n, features)`, fitted to the rows `train`, and the encoding."""
    imputer = SimpleImputer(strategy="median", keep_empty_features=True)
    options: Any = {"handle_unknown": "ignore", "sparse_output": False}
    encoder = OneHotEncoder(max_categories=MAX_CATEGORIES, **options)
    scaler = make_pipeline(imputer, StandardScaler())
    transformers = [("numeric", scaler, numbers), ("categorical", encoder, texts)]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite values are rejected later
        table = ColumnTransformer(transformers).fit(cells.iloc[train])
        features = np.asarray(table.transform(cells), dtype=np.float32)
    entries: list[dict[str, Any]] = []
    if numbers:
        imputer, scaler = table.named_transformers_["numeric"].named_steps.values()
        values = {"median": imputer.statistics_, "mean": scaler.mean_, "scale": scaler.scale_}
        frame = pandas.DataFrame({"input": range(len(numbers)), "column": numbers, **values})
        entries += frame.to_dict("records")
    if texts:
        encoder, start = table.named_transformers_["categorical"], len(numbers)
        rarer = encoder.infrequent_categories_  # an array or `None` per column
        for name, categories, rare in zip(texts, encoder.categories_, rarer, strict=True):
            is_rare = np.isin(categories, [] if rare is None else rare)
            for i, category in enumerate([*categories[~is_rare], *categories[is_rare]]):
                position = start + min(i, MAX_CATEGORIES - 1)  # the last input is all rare ones
                entries.append({"input": position, "column": name, "category": category})
            start += min(len(categories), MAX_CATEGORIES)
    header: Any = ["input", "column", "category", "median", "mean", "scale"]
    return features, pandas.DataFrame(entries, columns=header)
