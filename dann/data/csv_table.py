"""The reader of CSV tables."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dann.data.domain_pair import DomainPair
from dann.data.nuisances import parse_nuisances
from dann.data.parts import build_pair, check_disjoint, select_columns


def csv_table(
    source: str | os.PathLike,
    target: str | os.PathLike | None = None,
    label: str = "label",
    *,
    numeric: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    source_test: str | os.PathLike | None = None,
    target_test: str | os.PathLike | None = None,
    delimiter: str = ",",
    source_name: str | None = None,
    target_name: str | None = None,
    max_categories: int = 1000,
    target_new: str | os.PathLike | None = None,
    groups: str | None = None,
    nuisances: Sequence[str] | Mapping[str, Any] | None = None,
    **options: Any,
) -> DomainPair:
    """Pairs two CSV files (UTF-8, with a header) that have the same columns, in any order.

    Or reads one table with nuisances, of which a part is held out; see `dann.Invariant`.

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
        target: Path of the target's table. Defaults to `None`: one labelled table, the source.
        label: Name of the column of labels. Defaults to `"label"`.
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
        max_categories: The most columns that one becomes; its rarer categories share the last.
            Defaults to `1000`.
        target_new: Path of further target examples, labelled or not, in the place of the target's
            test set, as `scripts/evaluate.py target=` gives it. Defaults to `None`.
        groups: Name of the column of groups, which is no input: whole groups are drawn to test on;
            see `dann.data.arrays`. Defaults to `None`.
        nuisances: Of one table the names of columns, which are no inputs, or by name the number of
            classes or `"number"`; see `dann.data.nuisances.encoded`. Defaults to `None`.
        **options: `test_share` and `seed` of `dann.data.arrays`.

    Returns:
        A pair with inputs float32 `(n, features)`: numeric columns, then categories by column.

    Raises:
        OSError: If a file does not exist.
        ValueError: If a file is not a table or is both trained on and tested on; if columns differ
            or do not exist; if a numeric column holds something else, or most cells of a column
            that is not said to be categorical are numbers; or if a label of the source is missing,
            or one of the target is no class of the source.
    """
    kinds = parse_nuisances(nuisances, target)
    given = {"source": source, "target": target}
    given |= {"source test": source_test, "target test": target_test, "target new": target_new}
    paths = {part: pathlib.Path(path).expanduser() for part, path in given.items() if path}
    check_disjoint(paths, os.path.samefile, "files")
    tables = {part: _read(path, delimiter) for part, path in paths.items()}
    columns, used = {"labels": label, "groups": groups}, {label, groups, *kinds}
    parts = {
        # A nuisance that also groups keeps its missing values.
        part: {
            **select_columns(part, table, columns, kinds),
            **select_columns(part, table.fillna({label: "", groups: ""}), columns, ()),
        }
        for part, table in tables.items()
    }
    names = [name for name in tables["source"] if name not in used]
    for part, table in tables.items():
        differ = set(names) ^ (set(table) - used)
        if differ or not names:
            raise ValueError(
                "All tables must have the same columns, one or more beside the labels. Received: "
                f"only in one of the source and the {part} {sorted(differ)}"
            )
    cells: Any = pandas.concat(tables)[names]
    numbers, texts = _kinds(cells, numeric, categorical)
    shown = ", ".join(f"{name} ({cells[name].nunique()} values)" for name in texts)[:500]
    print(f"Columns taken as numbers: {len(numbers)}; as categories: {len(texts)}: {shown}")
    # The split comes first, with row numbers as inputs: the encoding needs the training rows.
    for part, columns in parts.items():
        columns["inputs"] = np.flatnonzero(cells.index.get_level_values(0) == part)[:, np.newaxis]
    pair = build_pair(
        parts,
        source_name=source_name or paths["source"].stem,
        target_name=target_name or paths.get("target", paths["source"]).stem,
        kinds=kinds,
        **options,
    )
    train = np.concatenate([pair.source_train[0], pair.target_train])[:, 0]
    features = _encode(cells, train, numbers, texts, max_categories)
    return pair.map_inputs(lambda part: features[part[:, 0]])


def _read(path, delimiter) -> Any:
    """A frame of texts, NaN where a cell is missing."""
    form: Any = {"sep": delimiter, "skipinitialspace": True, "encoding": "utf-8-sig"}
    table = pandas.read_csv(path, dtype=str, **form)
    if not isinstance(table.index, pandas.RangeIndex):
        raise ValueError(f"Rows must have as many cells as the header. Received: more, in {path}")
    table.columns = table.columns.str.strip()
    return table.apply(lambda column: column.str.strip())


def _kinds(cells, numeric, categorical):
    """Names of the numeric and of the categorical columns; the numeric ones become numbers."""
    named = [*(numeric or ()), *(categorical or ())]
    both = numeric is not None and categorical is not None
    chosen = [name for name in cells.columns if name in named or not both]
    if not {*named} <= {*cells.columns} or not chosen:
        raise ValueError(
            f"`numeric` and `categorical` must name columns of {list(cells.columns)}. "
            f"Received: {named}"
        )
    others = cells.columns if numeric is None else numeric
    maybe = [name for name in chosen if name in others and name not in (categorical or ())]
    numbers = [name for name in maybe if _become_numbers(cells, name, name in (numeric or ()))]
    texts = [name for name in chosen if name not in numbers]
    cells[texts] = cells[texts].fillna("")
    return numbers, texts


def _become_numbers(cells: Any, name, is_numeric):
    """Makes a column numbers if all its cells are; refuses one of which only most are."""
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


def _encode(cells, train, numbers, texts, max_categories):
    """All rows as features, float32 `(n, features)`, scaled and encoded by the rows `train`."""
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    options: Any = {"handle_unknown": "ignore", "sparse_output": False}
    encoder = OneHotEncoder(max_categories=max_categories, **options)
    scaler = make_pipeline(filled, StandardScaler())
    parts = [("numeric", scaler, numbers), ("categorical", encoder, texts)]
    with np.errstate(over="ignore", invalid="ignore"):  # not finite then, which is refused
        table = ColumnTransformer(parts).fit(cells.iloc[train])
        return np.asarray(table.transform(cells), dtype=np.float32)
