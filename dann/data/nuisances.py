"""Nuisances of a labeled table: attributes that the features of a model should not reveal."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas

from dann.checks import check_integer
from dann.data.domain_pair import DomainPair
from dann.data.pairs import Pairs

NUMBER = "number"
MAX_CLASSES = 20  # distinct integers up to which a column counts as classes


class Nuisances(NamedTuple):
    """Nuisances of training and test examples.

    Values are class numbers, with -1 where missing, or float32 numbers, with NaN where missing.

    Attributes:
        kinds: The number of classes of each nuisance by name, or `"number"`.
        train: Values of the training examples by name, `(n,)` each.
        test: Values of the test examples by name, `(m,)` each.
        groups: The group of each test example, `(m,)`, or `None`.
        value_names: The values in the table by nuisance, in the order of their class numbers.
    """

    kinds: dict[str, int | str]
    train: dict[str, np.ndarray]
    test: dict[str, np.ndarray]
    groups: Any = None
    value_names: Mapping[str, np.ndarray] = {}

    def decode(self, name: str, values: np.ndarray) -> np.ndarray:
        """Returns the values of class numbers, `None` if missing; numbers are not changed."""
        if name not in self.value_names:
            return values
        return np.array([*self.value_names[name], None], object)[values]  # -1 selects `None`


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class NuisanceTable(DomainPair):
    """A labeled table with nuisances, for `dann.Invariant`.

    The `source_*` fields contain the table. The `target_*` fields contain the same inputs without
    labels; `target_test` contains the new examples if there are any.

    Args:
        nuisances: The nuisances of the source's training and test examples.
        **fields: See `dann.data.DomainPair`.
    """

    nuisances: Nuisances = dataclasses.field()  # required, unlike the base class's attribute

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.source

    def batches(
        self, batch_size: int | None = None, seed: int | None = None, **options: Any
    ) -> Pairs:
        """Returns endless training batches `(inputs, {"label": labels, ...})`.

        The dict of labels also contains the values of each nuisance by name.

        Args:
            batch_size: Number of examples per batch. Defaults to `None`: 64, or all examples of a
                smaller table.
            seed: See `dann.data.pair`.
            **options: `shuffle`, `process_id` and `num_processes` of `dann.data.pair`.
        """
        pairs = super().batches(batch_size, seed, **options)
        table: Any = pairs.domains["source"]
        # Replaced after the checks of `Examples`, because missing numbers are NaN.
        labels = {"label": self.source_train[1], **self.nuisances.train}
        table.examples.columns["labels"] = labels
        return Pairs({"source": table}, pairs.batch_size, None, pairs.shard)


def parse_nuisances(nuisances: Any, has_target: bool) -> dict[str, Any]:
    """Returns the requested kind of each nuisance by name, or `None` if its values determine it.

    Args:
        nuisances: Name or names of the nuisances, or a dict from name to kind; `None` for none.
        has_target: Whether there is a target besides the source.

    Raises:
        ValueError: Unless there are either nuisances or a target.
    """
    names = [nuisances] if isinstance(nuisances, str) else nuisances or []
    if bool(names) == has_target:
        raise ValueError(
            "Expected a source and a target; or, for one labeled table, no target and the names "
            f"of `nuisances`. Received: {'a' if has_target else 'no'} target and "
            f"nuisances={list(names)}"
        )
    return dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)


def encode_nuisances(
    kinds: Mapping[str, Any], train: Mapping[str, Any], test: Mapping[str, Any]
) -> Nuisances:
    """Encodes nuisances as numbers, and prints their kinds.

    Strings, and integers with at most 20 distinct values, are classes, numbered in order. All other
    values are numbers. `None` and NaN are missing values; among classes, so is -1.

    Args:
        kinds: By name the number of classes, at least the number of distinct values; `"number"`; or
            `None` if the values determine it.
        train: Columns of the training examples, as `dann.data.parts.build_pair` takes them.
        test: Columns of the test examples.

    Raises:
        ValueError: If a nuisance has fewer than two distinct values, or values of the wrong type.
    """
    encoded_kinds, train_values, test_values, value_names = {}, {}, {}, {}
    for name, kind in kinds.items():
        columns = [table[f"nuisance {name}"] for table in (train, test)]
        encoded_kinds[name], values, distinct = _encode(name, np.concatenate(columns), kind)
        if encoded_kinds[name] != NUMBER:
            value_names[name] = distinct.astype(str)
        train_values[name], test_values[name] = np.split(values, [len(columns[0])])
    words = [
        f"{name} number" if kind == NUMBER else f"{name} ({kind} values)"
        for name, kind in encoded_kinds.items()
    ]
    print(f"Nuisances: {', '.join(words)}")
    return Nuisances(encoded_kinds, train_values, test_values, test.get("groups"), value_names)


def _encode(name, column, kind):
    values: Any = pandas.Series(column).dropna().infer_objects()
    try:
        values = pandas.to_numeric(values)
    except ValueError:
        values = values.astype(str)
    is_numeric = values.dtype.kind in "biuf"
    has_many = values.dtype.kind == "f" or values.nunique() > MAX_CLASSES
    # Many distinct integers are treated as numbers, such as an age, not as classes.
    if kind is None and is_numeric and has_many:
        kind = NUMBER
    if is_numeric and kind != NUMBER:
        values = values[values != -1]
    distinct = np.unique(values)
    if len(distinct) < 2 or (kind == NUMBER and not is_numeric):
        raise ValueError(
            f"Expected the nuisance {name!r} to have at least two different values, and a nuisance "
            f"of kind 'number' only numbers. Received: {distinct.tolist()[:5]}"
        )
    if kind == NUMBER:
        return kind, _fill(values, len(column), np.nan, "float32"), distinct
    kind = len(distinct) if kind is None else kind
    hint = "the number of distinct values, or 'number'"
    check_integer(f"nuisances[{name!r}]", kind, len(distinct), hint=hint)
    # The class of a value is its position among the sorted distinct values.
    classes = pandas.Series(np.searchsorted(distinct, values), values.index)
    return kind, _fill(classes, len(column), -1, "int64"), distinct


def _fill(values, count, missing, dtype):
    # `dropna` removed the rows of missing values; `reindex` adds them again.
    return values.reindex(range(count), fill_value=missing).to_numpy(dtype)
