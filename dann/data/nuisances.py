"""The nuisances of a labelled table, which a training is to hide."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dann.checks import check_integer, did_you_mean

NUMBER = "number"
# Kinds by name, and by part of the data the values by name.
Encoded = tuple[dict[str, int | str], dict[str, dict[str, np.ndarray]]]
_FEW = 20  # values, up to which whole numbers are classes


class Nuisances(NamedTuple):
    """The nuisances of examples: numbers of classes, with -1 where missing, or float32, with NaN.

    Attributes:
        kinds: By name the number of classes, or `"number"`.
        train: Values of the training examples by name, `(n,)` each.
        test: Values of the test examples by name, `(m,)` each.
        groups: The group of each test example, `(m,)`, or `None`.
    """

    kinds: dict[str, int | str]
    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]
    groups: Any = None


def asked_for(given: Any, target: Any) -> dict[str, Any]:
    """Returns the kind of each nuisance by name, `None` where the values shall tell it.

    Raises:
        ValueError: Unless there are either nuisances or a target.
    """
    names = [given] if isinstance(given, str) else given or []
    if bool(names) == (target is not None):
        raise ValueError(
            "Give a source and a target; or, of one labelled table, no target and the names of "
            f"`nuisances`. Received: target={target} and nuisances={list(names)}"
        )
    return dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)


def picked(columns: Mapping[str, Any], names: Iterable[str], ending: str = "") -> dict[str, Any]:
    """Returns columns by name without the ending; raises a `ValueError` if there is none of one."""
    for name in (f"{name}{ending}" for name in names):
        if name not in columns:
            raise ValueError(
                f"There must be a column or array of the nuisance {name!r}."
                f"{did_you_mean(name, list(columns))} Received: {list(columns)}"
            )
    return {name: np.asarray(columns[f"{name}{ending}"], object) for name in names}


def encoded(parts: Mapping[str, Mapping[str, Any]], asked: Mapping[str, Any]) -> Encoded:
    """Returns the kinds of nuisances and their values as numbers, and prints the kinds.

    Texts, and whole numbers of at most 20 different values, are classes, numbered in order; all
    else is a number. Missing are `None`, NaN and, of classes, -1.

    Args:
        parts: By part of the data the values by name, `(n,)` each.
        asked: The number of classes by name, at least those that are found, or `"number"`; `None`
            as the values tell.

    Raises:
        ValueError: If there are not two different values, or if they are not of the kind.
    """
    kinds, found = {}, {part: {} for part in parts}
    for name, kind in asked.items():
        columns = [part[name] for part in parts.values()]
        kinds[name], numbers = _encoded(name, np.concatenate(columns), kind)
        ends = np.cumsum([len(column) for column in columns])
        for part, values in zip(found, np.split(numbers, ends[:-1]), strict=True):
            found[part][name] = values
    told = [f"{name} {k if k == NUMBER else f'({k} values)'}" for name, k in kinds.items()]
    if told:
        print(f"Nuisances: {', '.join(told)}")
    return kinds, found


def _encoded(name, values, kind):
    import pandas

    known: Any = pandas.Series(values).dropna().infer_objects()
    try:
        known = pandas.to_numeric(known)
    except ValueError:
        known = known.astype(str)
    is_numeric = known.dtype.kind in "biuf"
    if kind is None and is_numeric and (known.dtype.kind == "f" or known.nunique() > _FEW):
        kind = NUMBER
    known = known[known != -1] if is_numeric and kind != NUMBER else known
    different = np.unique(known)
    if len(different) < 2 or (kind == NUMBER and not is_numeric):
        raise ValueError(
            f"The nuisance {name!r} must have two different values, and as a number no texts. "
            f"Received: {different.tolist()[:5]}"
        )
    if kind == NUMBER:
        numbers = np.full(len(values), np.nan, "float32")
        numbers[known.index] = known
        return kind, numbers
    kind = len(different) if kind is None else kind
    check_integer(f"nuisances[{name!r}]", kind, len(different), why="the values, or 'number'")
    numbers = np.full(len(values), -1)
    numbers[known.index] = np.searchsorted(different, known)
    return kind, numbers
