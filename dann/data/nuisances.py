"""The nuisances of a labelled table, which a training is to hide."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas

from dann.checks import check_integer

NUMBER = "number"
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


def parse_nuisances(given: Any, target: Any) -> dict[str, Any]:
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


def encode_nuisances(
    asked: Mapping[str, Any], train: Mapping[str, Any], test: Mapping[str, Any]
) -> Nuisances:
    """Returns the nuisances of both parts with their values as numbers, and prints the kinds.

    Texts, and whole numbers of at most 20 different values, are classes, numbered in order; all
    else is a number. Missing are `None`, NaN and, of classes, -1.

    Args:
        asked: The number of classes by name, at least those that are found, or `"number"`; `None`
            as the values tell.
        train: What `dann.data.parts.build_pair` takes of the part to train on.
        test: The same of the part to test on.

    Raises:
        ValueError: If there are not two different values, or if they are not of the kind.
    """
    kinds, values = {}, ({}, {})
    for name, kind in asked.items():
        columns = [part[f"nuisance {name}"] for part in (train, test)]
        kinds[name], numbers = _encoded(name, np.concatenate(columns), kind)
        values[0][name], values[1][name] = np.split(numbers, [len(columns[0])])
    told = [f"{name} {k if k == NUMBER else f'({k} values)'}" for name, k in kinds.items()]
    print(f"Nuisances: {', '.join(told)}")
    return Nuisances(kinds, *values, test.get("groups"))


def _encoded(name, values, kind):
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
    missing, dtype = np.nan, "float32"
    if kind != NUMBER:
        kind, why = len(different) if kind is None else kind, "the values, or 'number'"
        check_integer(f"nuisances[{name!r}]", kind, len(different), why=why)
        known = pandas.Series(np.searchsorted(different, known), known.index)
        missing, dtype = -1, "int64"
    return kind, known.reindex(range(len(values)), fill_value=missing).to_numpy(dtype)
