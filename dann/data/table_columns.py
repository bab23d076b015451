"""Columns of tables: booleans, numbers, and columns that should probably be dropped."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas

from dann.checks import print_warning

_MAX_EXCLUSIVE_SHARE = 0.2  # share of a domain's rows whose category the other domain lacks
_MIN_IDS = 50  # fewest rows of a domain for which distinct integers may be ids
_DATE = r"\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4}|\d{4}/\d\d?/\d\d?"
_DATE += r"|(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"  # 20200105
_LARGE_INPUT = 1000  # standardized; beyond training rows, unless there are over a million
MAX_CATEGORIES = 1000  # one-hot columns per column


def unify_booleans(tables: Mapping[str, Any]) -> None:
    """Unifies booleans in columns with several spellings, such as `True`, `TRUE` and 1.

    Cells of the new target are rewritten with the spelling of the other tables.

    Args:
        tables: Frames of strings by part, such as `"source"` or `"new target"`, which change.
    """
    for name in {name for table in tables.values() for name in table}:
        columns = [t[name] for part, t in tables.items() if name in t and part != "new target"]
        spellings = set().union(*(column.dropna().unique() for column in columns))
        words = {spelling.lower(): spelling for spelling in spellings}
        if not words or not words.keys() <= {"true", "false", "1", "0"}:
            continue
        if spellings & {"1", "0"}:
            words = {"true": "1", "false": "0"}
        elif len(words) < len(spellings):
            words = {}
        true, false = words.get("true", "true"), words.get("false", "false")
        spelling = {"true": true, "1": true, "false": false, "0": false}
        for table in tables.values():
            if name in table:
                table[name] = table[name].str.lower().map(spelling).fillna(table[name])


def convert_to_numbers(cells: Any, name: str) -> bool:
    """Converts a column of numbers and returns `True`; returns `False` for a column of text.

    The kind of the column does not depend on the new target.

    Raises:
        ValueError: If most but not all cells are numbers, or the new target has another kind.
    """
    to_numeric: Any = pandas.to_numeric
    values = to_numeric(cells[name], errors="coerce").astype("float64")
    is_text = (values.isna() & cells[name].notna()) | np.isinf(values)
    is_new = cells.index.get_level_values(0) == "new target"
    if is_new.any():
        _check_new_cells(name, cells[name], is_text, is_new)
    texts = cells[name][is_text & ~is_new]
    # Numbers as people write them: 1,000, 12%, 3,5.
    digits = cells[name][~is_new].dropna().str.replace(r"[\s,%€$£]", "", regex=True)
    numeric_share = to_numeric(digits, errors="coerce").notna().mean()
    if len(texts) and numeric_share > 0.5:
        raise ValueError(
            f"Expected column {name!r} to contain finite numbers, such as 1200.5, or empty cells. "
            f"Received: {sorted(set(texts))[:3]} in {len(texts)} of {(~is_new).sum()} rows. "
            "Correct the cells, drop the column or list it in `categorical`"
        )
    if len(texts) == 0:
        cells[name] = values
    return len(texts) == 0


def warn_about_columns(cells: Any, texts: Sequence[str]) -> None:
    """Prints warnings about columns that reveal the domain, or contain ids or free text.

    Args:
        cells: Frame of all rows, indexed by the name of their part, such as `"source"`.
        texts: Names of the columns of categories. All other columns contain numbers.
    """
    is_target = ~cells.index.get_level_values(0).str.startswith("source")
    messages = {
        name: "has no name in the header. If it contains row numbers,"
        for name in cells
        if name.startswith("Unnamed: ")  # pandas' name for it
    }
    numbers = cells.columns.difference([*texts, *messages])
    for name in texts:
        source, target = cells[name][~is_target], cells[name][is_target]
        only_source, only_target = source[~source.isin(target)], target[~target.isin(source)]
        shares = len(only_source) / len(source), len(only_target) / max(len(target), 1)
        count = cells[name].nunique()
        is_date = cells[name][cells[name] != ""].str.match(_DATE).mean() == 1
        if is_date or count > min(len(cells) / 2, MAX_CATEGORIES):
            messages[name] = (
                f"has {count} categories in {len(cells)} rows. If they are ids, set "
                f"'data.id={_quote(name)}'. If they are free text, dates or names,"
            )
        elif len(target) and max(shares) > _MAX_EXCLUSIVE_SHARE:
            parts = [
                f"{share:.0%} of {domain} rows have categories that the {reference} lacks "
                f"({', '.join(_list_frequent(rows))})"
                for share, rows, domain, reference in (
                    (shares[0], only_source, "source", "target"),
                    (shares[1], only_target, "target", "source"),
                )
                if len(rows)
            ]
            messages[name] = (
                f"reveals the domain: {' and '.join(parts)}. Rename equal categories, or"
            )
    for name in numbers:
        missing = [cells[name][rows].isna().mean() for rows in (~is_target, is_target)]
        source, target = cells[name][~is_target].dropna(), cells[name][is_target].dropna()
        if abs(missing[0] - missing[1]) > _MAX_EXCLUSIVE_SHARE:
            messages[name] = (
                f"reveals the domain: {missing[0]:.0%} of source cells and {missing[1]:.0%} of "
                "target cells are missing. Fill in these cells, or"
            )
        elif source.min() > target.max() or source.max() < target.min():
            messages[name] = (
                f"reveals the domain: it is {source.min():.9g} to {source.max():.9g} in the "
                f"source, {target.min():.9g} to {target.max():.9g} in the target. If it contains "
                "ids or dates,"
            )
        elif _may_be_ids(source) and (target.empty or _may_be_ids(target)):
            messages[name] = (
                "has a different whole number in each row. If it contains ids, set "
                f"'data.id={_quote(name)}'. If it contains row numbers,"
            )
        elif cells[name].map("{:.9g}".format).str.match(_DATE).sum() == cells[name].count() > 0:
            example = f"{cells[name].max():.0f}"
            messages[name] = f"contains whole numbers such as {example}. If they are dates,"
    for name, message in messages.items():
        print_warning(f"column {name!r} {message} leave it out: 'data.drop=[{_quote(name)}]'")


def warn_about_large_inputs(names: Sequence[str], features: np.ndarray) -> None:
    """Prints warnings about columns of numbers, the first features, that became large inputs."""
    peaks = np.abs(features[:, : len(names)]).max(axis=0)
    for name, peak in zip(names, peaks, strict=True):
        if _LARGE_INPUT < peak < np.inf:
            print_warning(
                f"column {name!r} has inputs of up to {peak:.3g}, because its training rows are "
                "constant or in other units than these rows. Use the same units"
            )


def warn_about_new_categories(new: Any, train: Any) -> None:
    """Prints a warning about categories of new rows that the training rows lack.

    Args:
        new: Frame of the categorical columns of the new target.
        train: Frame of the training rows with the same columns.
    """
    unknown = {name: new[name][~new[name].isin(train[name])] for name in new}
    listed = [f"{name}: {_list_frequent(cells)}" for name, cells in unknown.items() if len(cells)]
    if listed:
        print_warning(
            "the new target has categories that are not among the training rows, so their inputs "
            f"are zeros: {'; '.join(listed)}"
        )


def _check_new_cells(name, column, is_text, is_new):
    """Checks that a column of the new target contains numbers or booleans, as in training."""
    is_boolean = column.str.lower().isin(["true", "false"]) | column.isna()
    is_unexpected, expected = is_text, "finite numbers like 1200.5"
    if is_text[~is_new].any():  # other text may be any text
        is_unexpected, expected = ~is_boolean & is_boolean[~is_new].all(), "True, False"
    cells = column[is_unexpected & is_new]
    if len(cells):
        raise ValueError(
            f"Expected column {name!r} of the new target to contain {expected} or empty cells, as "
            f"in training. Received: {sorted(set(cells))[:3]} in {len(cells)} of {is_new.sum()} "
            "rows. Correct the cells"
        )


def _may_be_ids(numbers):
    return len(numbers) >= _MIN_IDS and numbers.is_unique and (numbers % 1 == 0).all()


def _quote(name):
    """Returns the name of a column for Hydra's command line."""
    return name if re.fullmatch(r"\w+", name) else json.dumps(name, ensure_ascii=False)


def _list_frequent(values):
    return values.replace({"": "(missing)"}).value_counts().index[:3].tolist()
